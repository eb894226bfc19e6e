// The colours of the style sheet, for what is drawn on canvases.

const PALETTE_NAMES = ['ok', 'ok-muted', 'failed', 'refused', 'refused-dark', 'cancelled', 'gap', 'axis', 'flight',
  'cursor', 'text', 'soft', 'faint-line', 'band-1', 'band-2', 'band-3',
  'heat-1', 'heat-2', 'heat-3', 'heat-4', 'line-1', 'line-2', 'line-3', 'line-4'];
/** Texts and lines, which have the colour of the system where it sets the colours. */
const SYSTEM_NAMES = ['axis', 'cursor', 'text', 'soft'];
export const HEAT_STEPS = 64;

/** Colours by name: as text for a drawing context, and as a pixel. */
export const palette = { css: {}, pixel: {}, heat: [], font: '11px system-ui, sans-serif' };

/** Reads all colours anew, after the theme has changed. */
export function readPalette() {
  // A custom property with `light-dark()` is resolved only where it is used as a colour.
  const probe = document.createElement('span');
  document.body.append(probe);
  for (const name of PALETTE_NAMES) {
    probe.style.color = `var(--${name})`;
    probe.style.forcedColorAdjust = SYSTEM_NAMES.includes(name) ? 'auto' : 'none';
    const [red, green, blue] = getComputedStyle(probe).color.match(/[\d.]+/g).map(Number);
    palette.css[name] = `rgb(${red}, ${green}, ${blue})`;
    palette.pixel[name] = toPixel(red, green, blue);
  }
  probe.remove();
  palette.font = `11px ${getComputedStyle(document.documentElement).fontFamily}`;
  readHeat();
}

/** The four stops of the heat map's colours, in equal steps. */
function readHeat() {
  const stops = [1, 2, 3, 4].map((n) => palette.css[`heat-${n}`].match(/[\d.]+/g).map(Number));
  palette.heat = Array.from({ length: HEAT_STEPS }, (_, step) => {
    const place = step / (HEAT_STEPS - 1) * 3;
    const from = Math.min(2, Math.floor(place));
    const mixed = stops[from].map((low, i) => Math.round(low + (stops[from + 1][i] - low) * (place - from)));
    return `rgb(${mixed.join(', ')})`;
  });
}

/** The bytes red, green, blue, opaque in the memory of an image. */
function toPixel(red, green, blue) {
  return (0xff000000 | blue << 16 | green << 8 | red) >>> 0;
}

/** The colour of a count: by its square root, so that rare response times are seen beside frequent ones. */
export function heatColour(count, most) {
  return palette.heat[Math.round(Math.sqrt(count / most) * (HEAT_STEPS - 1))];
}
