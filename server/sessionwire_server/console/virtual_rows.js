/**
 * A list of any length of which only what can be seen is in the page.
 *
 * Heights are estimated until a row was shown, then measured; what a person looks at stays where it
 * is when rows above it come, go or turn out taller. At the end it stays at the end.
 */

const MARGIN_PX = 240;
const NEAR_END_PX = 48;

export class VirtualRows {
  #scroller;
  #list;
  #row;
  #items = [];
  #heights = new Map();
  #tops = new Float64Array(1);
  #shown = new Map();
  #first = 0;
  #last = 0;
  #drawing = 0;
  #sticky;
  #over = new AbortController();
  #width = 0;

  /**
   * @param {HTMLElement} scroller
   * @param {HTMLElement} list inside it, of role list
   * @param {{make: (item: any) => HTMLElement, update?: (row: HTMLElement, item: any) => boolean,
   *   estimate: (item: any) => number, sticky?: boolean, onDraw?: (range: any) => void}} row
   *   `update` changes a row in place and says whether it could; items have `key` and `version`
   */
  constructor(scroller, list, row) {
    this.#scroller = scroller;
    this.#list = list;
    this.#row = row;
    this.#sticky = row.sticky ?? false;
    const { signal } = this.#over;
    scroller.addEventListener("scroll", () => this.#scrolled(), { signal, passive: true });
    this.sizes = new ResizeObserver(() => this.#resized());
    this.sizes.observe(scroller);
  }

  close() {
    this.#over.abort();
    this.sizes.disconnect();
    cancelAnimationFrame(this.#drawing);
    this.#list.replaceChildren();
    this.#list.style.paddingTop = "";
    this.#list.style.paddingBottom = "";
  }

  get atEnd() {
    const { scrollHeight, scrollTop, clientHeight } = this.#scroller;
    return scrollHeight - scrollTop - clientHeight < NEAR_END_PX;
  }

  get sticks() {
    return this.#sticky;
  }

  /** Shows other items, or the same ones changed; drawn with the next frame. */
  set(items) {
    const anchor = this.#anchor();
    this.#items = items;
    this.#measure();
    this.#hold(anchor);
    this.later();
  }

  later() {
    if (this.#drawing) return;
    // A hidden page gets no frames, and must not gather changes without end.
    const draw = () => {
      this.#drawing = 0;
      this.draw();
    };
    if (document.hidden) setTimeout(draw, 200);
    else this.#drawing = requestAnimationFrame(draw);
  }

  toEnd() {
    this.#sticky = true;
    this.#scroller.scrollTop = this.#scroller.scrollHeight;
    this.later();
  }

  /** Somebody looks at a row: it stays where it is, whatever comes at the end. */
  release() {
    this.#sticky = false;
  }

  toStart() {
    this.#sticky = false;
    this.#scroller.scrollTop = 0;
    this.later();
  }

  /** Brings an item to the top of the view. */
  show(key) {
    const index = this.#items.findIndex((item) => item.key === key);
    if (index < 0) return false;
    this.#sticky = false;
    this.#scroller.scrollTop = this.#tops[index];
    this.draw();
    this.#scroller.scrollTop = this.#tops[index];
    return true;
  }

  focusRow(key) {
    this.#shown.get(key)?.element.querySelector("button, a")?.focus({ preventScroll: true });
  }

  draw() {
    if (this.#over.signal.aborted) return;
    const anchor = this.#anchor();
    this.#render();
    if (this.#measureShown()) {
      this.#measure();
      this.#hold(anchor);
      // Rows that turned out shorter leave room for others.
      this.#render();
      if (this.#measureShown()) {
        this.#measure();
        this.#pad();
      }
    }
    if (this.#sticky) this.#scroller.scrollTop = this.#scroller.scrollHeight;
    this.#row.onDraw?.({
      first: this.#first,
      last: this.#last,
      nearStart: this.#scroller.scrollTop < 600,
      nearEnd: this.#scroller.scrollHeight - this.#scroller.scrollTop - this.#scroller.clientHeight < 600,
    });
  }

  #scrolled() {
    this.#sticky = (this.#row.sticky ?? false) && this.atEnd;
    this.later();
  }

  #resized() {
    if (this.#scroller.clientWidth !== this.#width) {
      this.#width = this.#scroller.clientWidth;
      this.#heights.clear();
      for (const shown of this.#shown.values()) shown.measured = false;
      this.#measure();
    }
    this.later();
  }

  /** The first item in view and how far above its top the view begins. */
  #anchor() {
    if (this.#sticky || this.#items.length === 0) return null;
    const top = this.#scroller.scrollTop;
    const index = this.#at(top);
    return { key: this.#items[index].key, by: top - this.#tops[index] };
  }

  #hold(anchor) {
    if (anchor === null) return;
    const index = this.#items.findIndex((item) => item.key === anchor.key);
    if (index < 0) return;
    const wanted = this.#tops[index] + anchor.by;
    this.#pad();
    if (Math.abs(this.#scroller.scrollTop - wanted) > 1) this.#scroller.scrollTop = wanted;
  }

  /** The index of the item that is at a height. */
  #at(top) {
    let low = 0;
    let high = this.#items.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.#tops[middle] <= top) low = middle;
      else high = middle - 1;
    }
    return Math.max(0, low);
  }

  #measure() {
    const count = this.#items.length;
    if (this.#tops.length < count + 1 || this.#tops.length > 4 * count + 64) {
      this.#tops = new Float64Array(count + 65);
    }
    let top = 0;
    for (let index = 0; index < count; index += 1) {
      this.#tops[index] = top;
      const item = this.#items[index];
      top += this.#heights.get(item.key) ?? this.#row.estimate(item);
    }
    this.#tops[count] = top;
    if (this.#heights.size > 4 * count + 2_000) {
      const keys = new Set(this.#items.map((item) => item.key));
      for (const key of this.#heights.keys()) if (!keys.has(key)) this.#heights.delete(key);
    }
  }

  #render() {
    const { clientHeight } = this.#scroller;
    const count = this.#items.length;
    const total = this.#tops[count];
    const top = this.#sticky ? Math.max(0, total - clientHeight) : this.#scroller.scrollTop;
    this.#first = count === 0 ? 0 : this.#at(Math.max(0, top - MARGIN_PX));
    this.#last = count === 0 ? 0 : this.#at(top + clientHeight + MARGIN_PX) + 1;
    const wanted = this.#items.slice(this.#first, this.#last);
    const keys = new Set(wanted.map((item) => item.key));
    for (const [key, { element }] of this.#shown) {
      if (keys.has(key)) continue;
      if (element.contains(document.activeElement)) this.#scroller.focus({ preventScroll: true });
      element.remove();
      this.#shown.delete(key);
    }
    let after = null;
    wanted.forEach((item, index) => {
      const element = this.#rowOf(item);
      const position = `${this.#first + index + 1}`;
      if (element.ariaPosInSet !== position) element.ariaPosInSet = position;
      element.ariaSetSize = `${count}`;
      const next = after === null ? this.#list.firstElementChild : after.nextElementSibling;
      if (next !== element) this.#list.insertBefore(element, next);
      after = element;
    });
    this.#pad();
  }

  #rowOf(item) {
    const shown = this.#shown.get(item.key);
    if (shown && shown.item === item && shown.version === item.version) return shown.element;
    if (shown && this.#row.update?.(shown.element, item)) {
      Object.assign(shown, { item, version: item.version, measured: false });
      return shown.element;
    }
    const element = this.#row.make(item);
    if (shown) {
      const had = shown.element.contains(document.activeElement);
      shown.element.replaceWith(element);
      if (had) element.querySelector("button, a")?.focus({ preventScroll: true });
    }
    this.#shown.set(item.key, { element, item, version: item.version, measured: false });
    return element;
  }

  #pad() {
    const count = this.#items.length;
    this.#list.style.paddingTop = `${this.#tops[this.#first]}px`;
    this.#list.style.paddingBottom = `${Math.max(0, this.#tops[count] - this.#tops[this.#last])}px`;
  }

  /** Measures rows that were not; whether any is not as tall as was thought. */
  #measureShown() {
    let changed = false;
    for (const [key, shown] of this.#shown) {
      if (shown.measured) continue;
      shown.measured = true;
      const height = shown.element.getBoundingClientRect().height;
      if (Math.abs((this.#heights.get(key) ?? this.#row.estimate(shown.item)) - height) < 0.5) continue;
      this.#heights.set(key, height);
      changed = true;
    }
    return changed;
  }
}
