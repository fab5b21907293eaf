(() => {
  "use strict";
  const specs = JSON.parse(document.getElementById("specs").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const theme = () => {
    const ink = dark.matches ? "#e6e9ee" : "#1c1f23", line = dark.matches ? "#363c45" : "#d7dbe0";
    const text = { labelColor: ink, titleColor: ink, labelFontSize: 12, titleFontSize: 12, titleFontWeight: "normal" };
    return {
      background: null, font: "system-ui, sans-serif", view: { stroke: null },
      axis: { ...text, gridColor: line, domainColor: line, tickColor: line, labelLimit: 260, tickCount: 8 },
      legend: { ...text, orient: "bottom", labelLimit: 200 }, header: text, title: { color: ink },
      text: { color: ink }, rule: { color: ink },
    };
  };
  const shown = new Map();
  const draw = async () => {
    for (const [id, spec] of Object.entries(specs)) {
      shown.get(id)?.finalize();
      const place = document.getElementById(id);
      shown.set(id, await vegaEmbed(place, spec, { config: theme(), renderer: "svg", actions: false, logLevel: 1, tooltip: { theme: dark.matches ? "dark" : "light" } }));
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
