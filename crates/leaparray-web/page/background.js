// A hidden tab: a light stream of totals and changes, for the title, the icon and notifications.

import { FAILING, STRAINED } from './verdict.js';

/** So many hidden tabs may have a stream, of six of a browser. */
const PLACES = 3;

export class Background {
  constructor(onHeld) {
    this.onHeld = onHeld;
    /** Ends the waiting for a place; `null` while the tab is shown. */
    this.waiting = null;
    /** Gives the place back; `null` without one. */
    this.release = null;
  }

  /** Takes a place, as soon as there is one, or gives it up. */
  follow(wants) {
    if (wants === (this.waiting !== null)) return;
    this.waiting?.abort();
    this.release?.();
    this.waiting = this.release = null;
    if (wants) this.wait();
  }

  /** Waits for each of the places, and takes the first one. Over HTTP from another machine there are no locks, and so no stream. */
  wait() {
    const { signal } = this.waiting = new AbortController();
    for (let place = 0; place < PLACES; place++) {
      navigator.locks?.request(`leaparray ${place}`, { signal }, () => {
        if (signal.aborted) return undefined;
        this.waiting.abort();
        const held = new Promise((resolve) => { this.release = resolve; });
        this.onHeld();
        return held;
      }).catch((error) => error.name === 'AbortError' || reportError(error));
    }
  }
}

/** The icon has a square for failing and a triangle for strained, as the rows do; it is grey if nothing is read. */
export function showIcon(levels) {
  const path = (colour, d) => `<path fill='#${colour}' d='${d}'/>`;
  const corner = levels?.[FAILING] > 0 ? path('c2410c', 'M7 7h9v9H7z') : levels?.[STRAINED] > 0 ? path('e69f00', 'M11 6l5 10H6z') : '';
  const bars = path(levels === null ? '848d97' : '0072b2', 'M1 7h3v8H1zM5 3h3v12H5zM9 5h3v10H9z');
  const href = `data:image/svg+xml,${encodeURIComponent(`<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'>${bars}${corner}</svg>`)}`;
  const icon = document.querySelector('link[rel=icon]');
  if (icon.href !== href) icon.href = href;
}
