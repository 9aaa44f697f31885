// The view of what the server does: charts of the last two minutes and a table of the last second, read from /-/metrics each second.
// Nothing is read while the view is not shown.
"use strict";

const Reactors = (() => {
  const KEPT = 120;
  const EVERY = 1_000;

  const count = (value) => Format.exact.format(Math.round(value));
  const rate = (value) => `${Format.size(value)}/s`;
  const percent = (value) => `${(value * 100).toFixed(1)} %`;

  function duration(seconds) {
    if (seconds < 0.001) return `${(seconds * 1e6).toFixed(0)} µs`;
    return seconds < 1 ? `${(seconds * 1e3).toFixed(seconds < 0.01 ? 2 : 1)} ms` : `${seconds.toFixed(2)} s`;
  }

  const CHARTS = [
    { title: "Requests a second", lines: [["all", (s) => s.requests]], text: count, least: 10 },
    { title: "Time to answer", lines: [["p50", (s) => s.p50], ["p99", (s) => s.p99]], text: duration, least: 0.0001 },
    { title: "Bytes a second", lines: [["in", (s) => s.received], ["out", (s) => s.sent]], text: rate, least: 1024, unit: 1024 },
    { title: "Answered from memory", lines: [["hits", (s) => s.hitRate]], text: percent, least: 1 },
    { title: "Delay of a thread", lines: [["p99", (s) => s.lag]], text: duration, least: 0.001 },
    { title: "Connections by thread", bars: (s) => s.reactors, text: count, least: 4 },
  ];

  let last = null;
  let history = [];
  let timer = 0;
  let isShown = false;
  let drawn = null;

  async function tick() {
    clearTimeout(timer);
    if (!isShown || document.hidden) return;
    const begun = performance.now();
    try {
      const answer = await request(`${root}-/metrics`);
      const now = Metrics.reading(await answer.text(), performance.now());
      // A long pause is no second: what happened in it would be one false point.
      if (last && now.at - last.at < 10 * EVERY) history = [...history, Metrics.between(last, now)].slice(-KEPT);
      last = now;
      $("reactors-note").hidden = true;
      draw();
    } catch (error) {
      last = null;
      $("reactors-note").textContent = error.status === 404
        ? "The activity of this server is shown at another address."
        : `No metrics: ${error.message}`;
      $("reactors-note").hidden = false;
    }
    clearTimeout(timer);
    timer = setTimeout(tick, Math.max(100, EVERY - (performance.now() - begun)));
  }

  function draw() {
    drawn ??= CHARTS.map(build);
    const now = history.at(-1);
    if (!now) return;
    drawn.forEach((chart) => (chart.bars ? drawBars(chart, now) : drawLines(chart)));
    drawTable(now);
  }

  function build(chart) {
    const drawing = makeSvg("svg", { viewBox: `0 0 ${KEPT - 1} 100`, preserveAspectRatio: "none", role: "img", "aria-label": chart.title });
    for (const y of [1, 50]) drawing.append(makeSvg("line", { class: "grid", x1: 0, x2: KEPT - 1, y1: y, y2: y }));
    const paths = (chart.lines ?? []).map((_, n) => makeSvg("path", { class: n === 0 ? "first" : "second" }));
    const legend = make("p", { class: "legend" });
    const values = (chart.lines ?? []).map(([name], n) => {
      const value = make("span", {}, "–");
      legend.append(make("span", {}, make("span", { class: n === 0 ? "swatch" : "swatch second" }), chart.lines.length > 1 || name === "p99" ? `${name} ` : "", value));
      return value;
    });
    drawing.append(...paths);
    const most = make("span", { class: "most" });
    const axis = chart.bars
      ? make("p", { class: "axis under" })
      : make("p", { class: "axis", "aria-hidden": "true" }, make("span", {}, "2 minutes ago"), make("span", {}, "now"));
    $("charts").append(make("figure", { class: "card chart" }, make("h3", {}, chart.title), legend, make("div", { class: "plot" }, drawing, most), axis));
    return { ...chart, drawing, paths, legend, values, most, axis };
  }

  function drawLines(chart) {
    const series = chart.lines.map(([, value]) => history.map(value));
    const top = ceiling(Math.max(...series.flat().filter((value) => value !== null), 0), chart.least, chart.unit);
    chart.most.textContent = chart.text(top);
    const said = series.map((points, n) => {
      chart.paths[n].setAttribute("d", line(points, top));
      const now = points.at(-1);
      chart.values[n].textContent = now === null ? "–" : chart.text(now);
      return `${chart.lines[n][0]} ${now === null ? "nothing" : chart.text(now)}`;
    });
    chart.drawing.setAttribute("aria-label", `${chart.title}: ${said.join(", ")}`);
  }

  /** A path through the points; what is not known is a gap. The newest is at the right. */
  function line(points, top) {
    let d = "";
    let isDown = false;
    points.forEach((value, n) => {
      if (value === null) {
        isDown = false;
        return;
      }
      const x = KEPT - points.length + n;
      d += `${isDown ? "L" : "M"}${x} ${(100 - (99 * value) / top).toFixed(2)}`;
      // A point alone would be invisible.
      if (!isDown && (points[n + 1] ?? null) === null) d += "h0.5";
      isDown = true;
    });
    return d;
  }

  function drawBars(chart, now) {
    const bars = chart.bars(now);
    const top = ceiling(Math.max(...bars.map((bar) => bar.active), 0), chart.least, chart.unit);
    chart.most.textContent = chart.text(top);
    chart.drawing.querySelectorAll(".bar").forEach((bar) => bar.remove());
    const step = (KEPT - 1) / Math.max(1, bars.length);
    bars.forEach((bar, n) => {
      const height = (99 * bar.active) / top;
      chart.drawing.append(makeSvg("rect", { class: "bar", x: n * step + step * 0.15, width: step * 0.7, y: 100 - height, height }));
    });
    const all = bars.reduce((sum, bar) => sum + bar.active, 0);
    chart.legend.textContent = `${count(all)} in all`;
    chart.axis.replaceChildren(...(bars.length <= 16 ? bars.map((bar) => make("span", {}, bar.id)) : [make("span", {}, "0"), make("span", {}, `${bars.length - 1}`)]));
    chart.drawing.setAttribute("aria-label", `${chart.title}: ${bars.length} threads, ${count(all)} connections`);
  }

  /** The next 1, 2 or 5 of a power of ten; with a `unit`, of a power of that. */
  function ceiling(value, least, unit = 1) {
    let [wanted, scale] = [Math.max(value, least), 1];
    while (unit > 1 && wanted >= unit) [wanted, scale] = [wanted / unit, scale * unit];
    const power = 10 ** Math.floor(Math.log10(wanted));
    return scale * [1, 2, 5, 10].map((n) => n * power).find((limit) => limit >= wanted * 0.999999);
  }

  function drawTable(now) {
    const text = (value, format) => (value === null ? "–" : format(value));
    const active = now.reactors.reduce((sum, reactor) => sum + reactor.active, 0);
    const lines = now.reactors.map((r) => [r.id, r]).concat([["all", { ...now, active }]]);
    const rows = lines.map(([name, r]) =>
      make(
        "tr",
        { role: "row" },
        make("th", { role: "rowheader", scope: "row" }, name),
        make("td", { role: "cell" }, text(r.requests, count)),
        make("td", { role: "cell" }, text(r.p50, duration)),
        make("td", { role: "cell" }, text(r.p99, duration)),
        make("td", { role: "cell" }, count(r.active)),
      ),
    );
    $("reactor-rows").replaceChildren(...rows);
  }

  document.addEventListener("visibilitychange", tick);

  return {
    show(shown) {
      isShown = shown;
      tick();
    },
    /** Whether this server answers metrics here at all. */
    isThere: async () => Rights.seesMetrics() && request(`${root}-/metrics`).then((answer) => answer.text()).then(() => true, () => false),
  };
})();
