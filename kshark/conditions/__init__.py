"""Conditions over a message's fields, as values. A rule or a display filter (`-Y`) writes them; they have three forms:
Python, Spark SQL and text.

    from kshark.conditions import F, any_of, size

    INVERTED = any_of("topics.partitions.acknowledgement_batches", F("first_offset") > F("last_offset"))

    INVERTED.compiled()(body)    # Python: True or False for a decoded body
    INVERTED.sql("request")      # Spark SQL, over a column of struct type: the same result for the same body
    INVERTED.description         # "some acknowledgement batch with first_offset > last_offset"

Terms. A term has a value or is absent: the field is not in this version, a tagged field was not sent, or a nullable
field is null.

    F("max_wait_ms"), F("current_leader.leader_id")    a field of the body, or of any_of's element; dots enter structs
    ELEMENT                                            the element itself, inside an any_of over scalar values
    size("topics")                                     number of an array's elements; 0 if it is absent or null
    a + b, a - b                                       of whole numbers, exact; absent if one operand is absent
    3, "text", True, ErrorCode.NONE                    constants

Conditions:

    a < b, a <= b, a == b, a != b, a >= b, a > b       false if one operand is absent, also for !=
    a.one_of(1, 2, 3), a.contains("x"), a.matches("^x")    matches: RE2 syntax, anywhere in the text, ignores case
    a.present(), a.is_true()
    p & q, p | q, ~p                                   true or false, never unknown: ~(a < b) is true if a is absent
    any_of("topics.partitions", p)                     true for at least one element; each name is an array;
                                                       F("assignment.partitions") is one array inside structs
    by_version({"0-1": p, "2+": q})                    depends on the API's version; give it in p.at(1), p.compiled(1),
                                                       p.sql("request", "api_version")
    ALWAYS, NEVER

`condition.check(api.request.root)` raises SchemaError for a name that is not in the schema. `compiled_together([p, q])`
returns one function that gives the indexes of the conditions that are true; if none is true, it reads each array only
once. Display filters are conditions over whole messages: kshark.conditions.filter parses them.
"""

from kshark.conditions.condition import ALWAYS, NEVER, Condition, compiled_together
from kshark.conditions.elements import any_of
from kshark.conditions.terms import ELEMENT, F, Term, size
from kshark.conditions.versions import by_version

__all__ = ["ALWAYS", "ELEMENT", "NEVER", "Condition", "F", "Term", "any_of", "by_version", "compiled_together", "size"]
