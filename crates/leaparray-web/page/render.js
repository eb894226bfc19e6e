// When the page is drawn: before the next frame, once for however many messages arrive until then.

let frame = 0;
/** The page, which has a table that is placed and is rendered itself. */
let page = null;

export function startRendering(app) {
  page = app;
}

/** Draws in the next frame; `rowsMoved` if the rows have other heights. */
export function requestRender(rowsMoved) {
  if (rowsMoved && page?.table.store) page.table.place();
  if (frame !== 0) return;
  frame = requestAnimationFrame(() => {
    frame = 0;
    page.render();
  });
}
