"""Turn frames into messages: read headers, join requests and answers, pass bodies to the dissectors."""

from kshark.exchange.decoding import Decoders
from kshark.exchange.stage import ExchangeStage
from kshark.exchange.witness import BodyWitness

__all__ = ["BodyWitness", "Decoders", "ExchangeStage"]
