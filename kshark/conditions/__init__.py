"""Conditions over a message's fields, as values: written in a rule or typed as a filter (`-Y`), read in three ways.

    from kshark.conditions import F, any_of, size

    INVERTED = any_of("topics.partitions.acknowledgement_batches", F("first_offset") > F("last_offset"))

    INVERTED.compiled()(body)    # Python: True or False for a decoded body
    INVERTED.sql("request")      # Spark SQL, over a column of struct type: the same truth for the same body
    INVERTED.told                # "some acknowledgement batch with first_offset > last_offset"

Terms, which have a value or are absent (the field is not in this version, a tagged one was not sent, a nullable one is
null):

    F("max_wait_ms"), F("current_leader.leader_id")    a field of the body, or of any_of's element; dots go into structs
    ELEMENT                                            the element itself, in an any_of over plain values
    size("topics")                                     how many elements an array has; none where it is absent or null
    a + b, a - b                                       of whole numbers, exact; absent where one of both is
    3, "text", True, ErrorCode.NONE                    constants

Conditions:

    a < b, a <= b, a == b, a != b, a >= b, a > b       false where one of both is absent, != too
    a.one_of(1, 2, 3), a.contains("x"), a.matches("^x")    matches: RE2, anywhere in the text, ignoring case
    a.present(), a.is_true()
    p & q, p | q, ~p                                   of two values, never unknown: ~(a < b) holds where a is absent
    any_of("topics.partitions", p)                     some element; names are arrays, or F("assignment.partitions"),
                                                       an array at the end of structs
    by_version({"0-1": p, "2+": q})                    depends on the API's version: p.at(1), p.compiled(1),
                                                       p.sql("request", "api_version") tell which
    ALWAYS, NEVER

`condition.check(api.request.root)` raises SchemaError for a name that the schema does not have; `compiled_together([p,
q])` makes one function that gives the numbers of those that hold, and goes through each array once where none does.
Display filters are these conditions over whole messages: kshark.conditions.filter reads them from text."""

from kshark.conditions.condition import ALWAYS, NEVER, Condition, compiled_together
from kshark.conditions.elements import any_of
from kshark.conditions.terms import ELEMENT, F, Term, size
from kshark.conditions.versions import by_version

__all__ = ["ALWAYS", "ELEMENT", "NEVER", "Condition", "F", "Term", "any_of", "by_version", "compiled_together", "size"]
