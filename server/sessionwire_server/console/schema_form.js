/**
 * A form from an elicitation's JSON Schema (MCP: a flat object of texts, numbers, booleans and lists
 * of choices). What the hub finds wrong is shown at its field.
 */

import { labelled, make } from "./elements.js";

const INPUTS = { email: "email", uri: "url", date: "date", "date-time": "datetime-local" };

export class SchemaForm {
  element = make("div", "fields");
  #fields = new Map();

  /** @param {any} schema `requestedSchema` */
  constructor(schema) {
    const properties = schema?.properties && typeof schema.properties === "object" ? schema.properties : {};
    const required = new Set(Array.isArray(schema?.required) ? schema.required : []);
    for (const [name, asked] of Object.entries(properties)) {
      const field = fieldOf(asked ?? {}, required.has(name));
      const title = `${asked?.title ?? name}${required.has(name) ? "" : " (optional)"}`;
      const problem = make("p", "problem");
      const box = make("div", "field");
      if (field.isGroup) {
        field.element.setAttribute("role", "group");
        field.element.ariaLabel = title;
        box.append(make("span", "label", title), field.element);
      } else if (field.isInline) {
        const line = make("div", "choice named");
        line.append(field.element, labelled(title, field.element));
        box.append(line);
      } else box.append(labelled(title, field.element), field.element);
      if (asked?.description) box.append(make("p", "hint", `${asked.description}`));
      box.append(problem);
      this.element.append(box);
      this.#fields.set(name, { ...field, problem });
    }
  }

  /** What was filled in; what was left empty is left out. */
  read() {
    const content = {};
    for (const [name, field] of this.#fields) {
      const value = field.read();
      if (value !== undefined) content[name] = value;
    }
    return content;
  }

  /** Shows faults at their fields; those of no field are given back. */
  show(faults) {
    for (const field of this.#fields.values()) field.problem.textContent = "";
    return faults.filter(({ pointer, message }) => {
      const name = decodeURIComponent(`${pointer}`.split("/")[2] ?? "").replaceAll("~1", "/").replaceAll("~0", "~");
      const field = this.#fields.get(name);
      if (field) field.problem.textContent = message;
      return !field;
    });
  }
}

function choicesOf(asked) {
  const titled = asked.oneOf ?? asked.anyOf;
  if (Array.isArray(titled)) {
    return titled.filter((each) => each && "const" in each).map((each) => ({ value: each.const, text: `${each.title ?? each.const}` }));
  }
  if (!Array.isArray(asked.enum)) return null;
  return asked.enum.map((value, index) => ({ value, text: `${asked.enumNames?.[index] ?? value}` }));
}

function fieldOf(asked, isRequired) {
  const type = Array.isArray(asked.type) ? asked.type[0] : asked.type;
  const choices = choicesOf(asked);
  if (type === "array") return manyOf(asked);
  if (choices) return oneOf(choices, asked, isRequired);
  if (type === "boolean") return yesOrNo(asked);
  if (type === "number" || type === "integer") return number(asked, type, isRequired);
  if (type === "string" || type === undefined) return text(asked, isRequired);
  return json(asked);
}

function oneOf(choices, asked, isRequired) {
  const element = make("select");
  if (!isRequired || asked.default === undefined) element.append(option("", "–"));
  choices.forEach(({ value, text }, index) => {
    const made = option(`${index + 1}`, text);
    made.selected = value === asked.default;
    element.append(made);
  });
  element.required = isRequired;
  return { element, read: () => (element.value === "" ? undefined : choices[Number(element.value) - 1].value) };
}

function option(value, text) {
  const made = make("option", "", text);
  made.value = value;
  return made;
}

function manyOf(asked) {
  const choices = choicesOf(asked.items ?? {});
  if (!choices) {
    const element = make("textarea");
    element.rows = 3;
    element.placeholder = "One a line";
    element.value = Array.isArray(asked.default) ? asked.default.join("\n") : "";
    return { element, read: () => element.value.split("\n").map((line) => line.trim()).filter(Boolean) };
  }
  const element = make("div", "choices");
  const boxes = choices.map(({ value, text }) => {
    const box = make("input");
    box.type = "checkbox";
    box.checked = Array.isArray(asked.default) && asked.default.includes(value);
    const line = make("div", "choice");
    line.append(box, labelled(text, box));
    element.append(line);
    return box;
  });
  return { element, isGroup: true, read: () => choices.filter((_, index) => boxes[index].checked).map(({ value }) => value) };
}

function yesOrNo(asked) {
  const element = make("input");
  element.type = "checkbox";
  element.checked = asked.default === true;
  return { element, isInline: true, read: () => element.checked };
}

function number(asked, type, isRequired) {
  const element = make("input");
  element.type = "number";
  element.step = type === "integer" ? "1" : "any";
  element.required = isRequired;
  if (asked.minimum !== undefined) element.min = asked.minimum;
  if (asked.maximum !== undefined) element.max = asked.maximum;
  if (asked.default !== undefined) element.value = asked.default;
  return { element, read: () => (element.value === "" ? undefined : Number(element.value)) };
}

function text(asked, isRequired) {
  const isLong = !asked.format && asked.maxLength > 200;
  const element = make(isLong ? "textarea" : "input");
  if (!isLong) element.type = INPUTS[asked.format] ?? "text";
  element.required = isRequired;
  if (asked.maxLength) element.maxLength = asked.maxLength;
  if (typeof asked.default === "string") element.value = asked.default;
  const isTime = asked.format === "date-time";
  return {
    element,
    read: () => {
      if (element.value === "" && !isRequired) return undefined;
      return isTime && element.value ? new Date(element.value).toISOString() : element.value;
    },
  };
}

function json(asked) {
  const element = make("textarea");
  element.value = asked.default === undefined ? "" : JSON.stringify(asked.default);
  return { element, read: () => (element.value.trim() === "" ? undefined : JSON.parse(element.value)) };
}
