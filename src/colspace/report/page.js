(() => {
  "use strict";
  const specs = JSON.parse(document.getElementById("specs").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const theme = () => {
    const ink = dark.matches ? "#e6e9ee" : "#1c1f23", line = dark.matches ? "#363c45" : "#d7dbe0";
    const text = { labelColor: ink, titleColor: ink, labelFontSize: 12, titleFontSize: 12, titleFontWeight: "normal" };
    return {
      background: null, font: "system-ui, sans-serif", view: { stroke: null },
      axis: { ...text, gridColor: line, domainColor: line, tickColor: line, labelLimit: window.innerWidth < 600 ? 130 : 320, titleLimit: window.innerWidth < 600 ? 230 : 600, tickCount: window.innerWidth < 600 ? 4 : 8 },
      legend: { ...text, orient: "bottom", labelLimit: window.innerWidth < 600 ? 110 : 150, columns: window.innerWidth < 600 ? 2 : 5 }, header: text, title: { color: ink },
      text: { color: ink }, rule: { color: ink },
    };
  };
  // Colours for dark paper: bright where they stand out, dull where they are to be pale.
  const bright = {
    "#0072b2": "#56b4e9", "#d55e00": "#f08a3c", "#009e73": "#3ecf9f", "#cc79a7": "#e6a3c8", "#56b4e9": "#9ad4f5",
    "#e69f00": "#f5c04a", "#9aa3af": "#59616d", "#000000": "#d7dbe0",
  };
  const tinted = (part) => {
    if (typeof part === "string") return bright[part.toLowerCase()] ?? part;
    if (Array.isArray(part)) return part.map(tinted);
    if (part === null || typeof part !== "object") return part;
    const kept = (name, value) => (name === "data" || name === "datasets" ? value : tinted(value));
    const made = Object.fromEntries(Object.entries(part).map(([name, value]) => [name, kept(name, value)]));
    return made.scheme === "viridis" ? { ...made, scheme: { name: "viridis", extent: [0.3, 1] } } : made;
  };
  const shown = new Map();
  const short = (value) => (typeof value === "number" ? Number(value.toPrecision(4)).toString() : String(value));

  // Points of a scatter by the keyboard, and what a selection holds, both as text that is read aloud.
  const points = (place, view, spec) => {
    const meta = spec.usermeta?.points;
    if (!meta) return;
    const rows = Object.values(spec.datasets ?? { all: spec.data.values })[0];
    const said = place.parentElement.querySelector(".said");
    let at = -1;
    place.onkeydown = (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      const ends = { Home: 0, End: rows.length - 1, Escape: -1 };
      if (step === undefined && !(event.key in ends)) return;
      event.preventDefault();
      at = step === undefined ? ends[event.key] : (at + step + rows.length) % rows.length;
      view.signal("place", at).runAsync();
      said.textContent = at < 0 ? "" : `Point ${at + 1} of ${rows.length}: ${meta.shown.map((name) => `${name} ${short(rows[at][name])}`).join(", ")}`;
    };
    view.addSignalListener("chosen", (_, chosen) => {
      const inside = (row, name) => !(name in chosen) || (row[name] >= Math.min(...chosen[name]) && row[name] <= Math.max(...chosen[name]));
      const some = Object.keys(chosen).length ? rows.filter((row) => inside(row, meta.x) && inside(row, meta.y)) : [];
      said.textContent = some.length ? `${some.length} of ${rows.length} points chosen` : "";
    });
  };
  const draw = async () => {
    for (const [id, spec] of Object.entries(specs)) {
      shown.get(id)?.finalize();
      const place = document.getElementById(id);
      const made = await vegaEmbed(place, dark.matches ? tinted(spec) : spec, { config: theme(), renderer: "svg", actions: false, logLevel: 1, tooltip: { theme: dark.matches ? "dark" : "light" } });
      shown.set(id, made);
      points(place, made.view, spec);
    }
    document.documentElement.dataset.drawn = "yes";
  };
  draw();
  dark.addEventListener("change", draw);
  const folded = () => [...document.querySelectorAll("details:not([open])")];
  let opened = [];
  window.addEventListener("beforeprint", () => { opened = folded(); opened.forEach((d) => { d.open = true; }); });
  window.addEventListener("afterprint", () => opened.forEach((d) => { d.open = false; }));
})();
