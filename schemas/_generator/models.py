"""Pydantic models from JSON Schema definitions: `_copilot.py` and `_everruns.py`.

Handles what the pinned catalogs use and refuses anything else, so that a new construct is noticed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast

from _generator.names import attribute_name
from _generator.source import WIDTH, Call, Index, Or, Raw, expression, header
from _generator.tables import Row

__all__ = ["render_models"]

_REF = "#/definitions/"

_BY_MEMBERS = {
    "PersistedBinaryResult": {
        "assetId": "BinaryAssetReference",
        "omittedReason": "OmittedBinaryResult",
        "data": "PersistedBinaryImage",
    },
    "ToolExecutionCompleteContentResourceDetails": {
        "text": "EmbeddedTextResourceContents",
        "blob": "EmbeddedBlobResourceContents",
    },
}
"""Unions whose branches share their tags: the member that only one branch requires tells."""


def render_models(
    catalog: str, definitions: dict[str, Any], types: tuple[Row, ...], digests: dict[str, str]
) -> str:
    """Write one catalog's module.

    Args:
        catalog: `copilot` or `everruns`.
        definitions: JSON Schema definitions with a `SessionEvent` union.
        types: rows of the catalog's table, for what stands at the event classes.
        digests: the pinned files.
    """
    return _Renderer(catalog, definitions, types).render(digests)


class _Renderer:
    def __init__(self, catalog: str, definitions: dict[str, Any], types: tuple[Row, ...]) -> None:
        self.catalog = catalog
        self.envelope = f"{catalog.capitalize()}Envelope"
        self.unknown = f"Unknown{catalog.capitalize()}Event"
        self.union = f"{catalog.capitalize()}Event"
        self.definitions = definitions
        self.rows = {row[4]: row for row in types}
        self.events = [_target(branch) for branch in definitions["SessionEvent"]["anyOf"]]
        self.tags = dict(_tag_members(definitions))

    def render(self, digests: dict[str, str]) -> str:
        bodies = [self._definition(name) for name in self._order() if name != "SessionEvent"]
        doc = f"Models of the {self.catalog} catalog."
        head = header(doc, digests, "# pyright: reportIncompatibleVariableOverride=false")
        exported = ["EVENTS", *sorted({*self._order(), self.union} - {"SessionEvent"})]
        opening = "__all__ = "
        names = expression(Index("", tuple(exported)), len(opening))
        body = "\n".join([f"{opening}{names}\n\n", *bodies, *self._events_table()])
        return "\n".join([head, self._imports(body), body])

    def _imports(self, body: str) -> str:
        lines: list[str] = []
        for module, names in self._sources().items():
            used = [name for name in names if re.search(rf"\b{name}\b", body)]
            line = f"from {module} import {', '.join(used)}"
            if len(line) > WIDTH:
                each = "".join(f"    {name},\n" for name in used)
                line = f"from {module} import (\n{each})"
            lines.append(line)
        typing, pydantic, *own = lines
        return "\n".join([typing, "", pydantic, "", *own, ""])

    def _sources(self) -> dict[str, tuple[str, ...]]:
        base = [self.envelope, "EphemeralRule", "OpenModel", "Stability", self.unknown]
        base += ["UnknownKind", "UnknownType", "Visibility"]
        return {
            "typing": ("Annotated", "Any", "ClassVar", "Final", "Literal", "TypeAlias", "Union"),
            "pydantic": ("Discriminator", "Field", "Tag"),
            "sessionwire_schemas.envelope": tuple(sorted(base)),
            "sessionwire_schemas.fields": (
                *("Boolean", "Integer", "Number"),
                *("by_members", "by_tag"),
            ),
        }

    def _order(self) -> list[str]:
        """Names so that each comes after what it is made of; in the catalog's order otherwise."""
        done: dict[str, None] = {}

        def visit(name: str, above: tuple[str, ...]) -> None:
            if name in above:
                raise ValueError(f"definitions that contain themselves: {(*above, name)}")
            if name in done:
                return
            for needed in _references(self.definitions[name]):
                visit(needed, (*above, name))
            done[name] = None

        for name in self.events:
            visit(name, ())
        for name in self.definitions:
            visit(name, ())
        return [name for name in done if name != "EventContext"]

    def _definition(self, name: str) -> str:
        schema = self.definitions[name]
        if name in self.events:
            return self._event(name, schema)
        if "properties" in schema:
            return self._class(name, schema)
        if "anyOf" in schema:
            return self._tagged(name, schema)
        return _alias(name, self._type(schema))

    def _event(self, name: str, schema: dict[str, Any]) -> str:
        event_type, ephemeral, visibility, stability, _, description = self.rows[name]
        lines = [f"class {name}({self.envelope}):"]
        lines.append(f'    """`{event_type}`{": " + description if description else ""}"""\n')
        lines.append(f'    event_type: ClassVar[str] = "{event_type}"')
        lines.append(f'    ephemeral_rule: ClassVar[EphemeralRule] = "{ephemeral}"')
        if visibility != "public":
            lines.append(f'    visibility: ClassVar[Visibility] = "{visibility}"')
        if stability != "stable":
            lines.append(f'    stability: ClassVar[Stability] = "{stability}"')
        lines.append(f'\n    type: Literal["{event_type}"]')
        data = expression(self._type(schema["properties"]["data"]), 10, 4)
        lines.append(f"    data: {data}\n\n")
        return "\n".join(lines)

    def _class(self, name: str, schema: dict[str, Any]) -> str:
        lines = [f"class {name}(OpenModel):"]
        taken: set[str] = set()
        for member, value in schema["properties"].items():
            attribute = attribute_name(member)
            if attribute in taken:
                raise ValueError(f"{name}: two members would be called {attribute!r}")
            taken.add(attribute)
            required = member in schema.get("required", ())
            lines.append(self._field(name, attribute, member, value, required))
        if not schema["properties"]:
            lines.append('    """An object without known members."""')
        return "\n".join([*lines, "", ""])

    def _field(
        self, owner: str, attribute: str, member: str, schema: dict[str, Any], required: bool
    ) -> str:
        annotation = self._type(schema, tag=self.tags.get(owner) == member)
        if not required:
            annotation = _nullable(annotation)
        default: object = None
        if attribute != member:
            given: dict[str, object] = {} if required else {"default": None}
            default = Call("Field", {**given, "alias": member})
        opening = f"    {attribute}: "
        if default is None and required:
            return opening + expression(annotation, len(opening), 4)
        value = expression(default, 0, 4)
        tail = len(" = ") + len(value)
        text = expression(annotation, len(opening), 4, tail)
        used = len(opening) + len(text) if "\n" not in text else len(text.rsplit("\n", 1)[-1])
        return f"{opening}{text} = {expression(default, used + 3, 4)}"

    def _tagged(self, name: str, schema: dict[str, Any]) -> str:
        targets = [_target(branch) for branch in schema["anyOf"]]
        if name in _BY_MEMBERS:
            table = _BY_MEMBERS[name]
            if set(table.values()) != set(targets):
                raise ValueError(f"{name}: its branches are {targets}")
            tags = {target: member for member, target in table.items()}
            chooser = Call("by_members", positional=tuple(table))
            return _alias(name, _union(tags, "UnknownType", chooser))
        member = self.tags[targets[0]]
        tags = {t: str(self.definitions[t]["properties"][member]["const"]) for t in targets}
        chooser = Call("by_tag", positional=(member, *tags.values()))
        return _alias(name, _union(tags, f"Unknown{member.capitalize()}", chooser))

    def _events_table(self) -> Iterator[str]:
        tags = {name: self.rows[name][0] for name in self.events}
        lines = [f"    {expression(tag)}: {name}," for name, tag in tags.items()]
        opening = f"EVENTS: Final[dict[str, type[{self.envelope}]]] = {{"
        yield "\n".join([opening, *lines, "}", '"""The class of each type."""\n'])
        chooser = Call("by_tag", positional=("type", Raw("*EVENTS")))
        yield _alias(self.union, _union(tags, self.unknown, chooser)).rstrip("\n")
        yield '"""Any event of the catalog, for annotations and for `TypeAdapter`."""\n'

    def _type(self, schema: dict[str, Any], tag: bool = False) -> object:
        """Return the annotation of a value that is there."""
        if "$ref" in schema:
            return Raw(_target(schema))
        if "anyOf" in schema:
            return self._nullable_type(schema["anyOf"])
        if "const" in schema or "enum" in schema:
            return _words(schema, tag)
        kinds = schema.get("type", "any")
        if not isinstance(kinds, str):
            (kind,) = set(kinds) - {"null"}
            return _nullable(self._type({**schema, "type": kind}))
        if "x-known-values" in schema:
            return Or((Index("Literal", tuple(schema["x-known-values"])), Raw("str")))
        match kinds:
            case "array":
                return Index("list", (self._type(schema["items"]),))
            case "object":
                # A bare `true` or `false` says nothing of their type; members are always kept.
                value: Any = schema.get("additionalProperties", True)
                item = Raw("Any") if isinstance(value, bool) else self._type(value)
                return Index("dict", (Raw("str"), item))
            case _:
                return Raw(_SCALARS[kinds])

    def _nullable_type(self, branches: list[dict[str, Any]]) -> object:
        others = [branch for branch in branches if branch != {"type": "null"}]
        if len(others) != 1 or len(others) == len(branches):
            raise ValueError(f"a nested union that is not just nullable: {branches}")
        return _nullable(self._type(others[0]))


_SCALARS = {
    "any": "Any",
    "boolean": "Boolean",
    "integer": "Integer",
    "number": "Number",
    "string": "str",
}


def _words(schema: dict[str, Any], tag: bool) -> object:
    """Tags are closed, for they choose the class; every other list of words may grow."""
    literal = Index("Literal", tuple(schema.get("enum", [schema.get("const")])))
    return literal if tag else Or((literal, Raw("str")))


def _nullable(annotation: object) -> object:
    none = Raw("None")
    if annotation == Raw("Any"):
        return annotation
    if isinstance(annotation, Or):
        return annotation if none in annotation.items else Or((*annotation.items, none))
    return Or((annotation, none))


def _union(tags: dict[str, str], fallback: str, chooser: Call) -> object:
    members = tuple(
        Index("Annotated", (Raw(name), Call("Tag", positional=(tag,))))
        for name, tag in {**tags, fallback: "?"}.items()
    )
    return Index("Annotated", (Or(members), Call("Discriminator", positional=(chooser,))))


def _alias(name: str, value: object) -> str:
    opening = f"{name}: TypeAlias = "
    return f"{opening}{expression(value, len(opening))}\n\n"


def _target(schema: dict[str, Any]) -> str:
    return str(schema["$ref"]).removeprefix(_REF)


def _references(schema: object) -> Iterator[str]:
    if isinstance(schema, dict):
        members = cast("dict[str, Any]", schema)
        if "$ref" in members:
            yield _target(members)
        for value in members.values():
            yield from _references(value)
    elif isinstance(schema, list):
        for value in cast("list[object]", schema):
            yield from _references(value)


def _tag_members(definitions: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each branch of a tagged union with the member that is its tag."""
    for name, schema in definitions.items():
        if "anyOf" in schema and name not in _BY_MEMBERS:
            for branch in schema["anyOf"]:
                properties = definitions[_target(branch)]["properties"]
                tag = next(m for m in ("kind", "type") if "const" in properties.get(m, {}))
                yield _target(branch), tag
