"""Frames to messages: headers read, requests and answers joined, bodies handed to the dissectors."""

from kshark.exchange.decoding import Decoders
from kshark.exchange.stage import ExchangeStage
from kshark.exchange.witness import BodyWitness

__all__ = ["BodyWitness", "Decoders", "ExchangeStage"]
