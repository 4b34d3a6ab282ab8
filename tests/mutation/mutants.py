"""Small mistakes that somebody might make in a C++ source, one at a time."""

import dataclasses
import re


@dataclasses.dataclass(frozen=True)
class Mutant:
    """`text` in the place of the characters `begin` to `end` of a file."""

    file: str
    line: int
    begin: int
    end: int
    text: str
    what: str

    def applied(self, source):
        return source[: self.begin] + self.text + source[self.end :]

    def __str__(self):
        return f"{self.file}:{self.line}: {self.what}"


# Comments, strings, characters, directives, and lines that only declare or tell of errors.
IGNORED = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"\((?:.*?)\)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'|^\s*#[^\n]*'
    r"|^\s*(?:using|namespace|template|typedef|static_assert|ensure|KILN_LOG|throw)\b[^\n]*|\boperator\s*[^\s\w(]+",
    re.MULTILINE | re.DOTALL)

EXCHANGED = {" < ": " <= ", " <= ": " < ", " > ": " >= ", " >= ": " > ", " == ": " != ", " != ": " == ",
             " && ": " || ", " || ": " && ", " + ": " - ", " - ": " + ", "++": "--",
             "true": "false", "false": "true", "break;": "continue;", "continue;": "break;"}
OPERATORS = re.compile(r" (?:<=?|>=?|==|!=|&&|\|\||\+|-) |\+\+|\b(?:true|false)\b|\b(?:break|continue);")
CONDITION = re.compile(r"\bif \((?!constexpr|const auto)")
# A call or an assignment that is a line of its own.
STATEMENT = re.compile(r"^( +)(?!return\b|const\b|auto\b|case\b|default\b|else\b|static\b|std::\w+ \w+;)"
                       r"(?:\*?[\w.\[\]]+(?:->|\.)[\w.>-]+\([^;{}\n]*\)|\*?[\w.>\[\]-]+ (?:[-+*|&]?=) [^;{}\n]*);\n",
                       re.MULTILINE)
ARGUMENTS = re.compile(r"\b(\w+)\((\w+(?:\.\w+)*), (\w+(?:\.\w+)*)\)")
NUMBER = re.compile(r"(?<![\w.])[0-3](?![\w.])")


def blanked(source):
    """`source` with spaces where nothing is to be changed."""
    return IGNORED.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), source)


def closing(text, start):
    """Where the parenthesis that opens at `start` closes; None if that is on another line."""
    depth = 0
    for at in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if text[at] == "\n":
            return None
        if depth == 0:
            return at
    return None


def mutants_of(file, source):
    """All of them, in order."""
    text = blanked(source)
    found = []

    def add(begin, end, replacement, what):
        found.append(Mutant(file, source.count("\n", 0, begin) + 1, begin, end, replacement, what))

    for match in OPERATORS.finditer(text):
        made = EXCHANGED[match[0]]
        add(match.start(), match.end(), made, f"'{match[0].strip()}' became '{made.strip()}'")
    for match in CONDITION.finditer(text):
        end = closing(text, match.end() - 1)
        if end is not None and ";" not in text[match.end() : end]:
            add(match.end(), end, f"!({source[match.end():end]})", f"'{source[match.start():end + 1]}' was negated")
    for match in STATEMENT.finditer(text):
        statement = source[match.start() : match.end()].strip()
        if ".reserve(" not in statement:
            add(match.start(), match.end(), "\n", f"'{statement}' was left out")
    for match in ARGUMENTS.finditer(text):
        if match[2] != match[3]:
            add(match.start(2), match.end(3), f"{match[3]}, {match[2]}", f"arguments of '{match[0]}' were swapped")
    for match in NUMBER.finditer(text):
        made = str(int(match[0]) + 1)
        add(match.start(), match.end(), made, f"'{match[0]}' became '{made}'")
    return sorted(found, key=lambda mutant: (mutant.begin, mutant.what))
