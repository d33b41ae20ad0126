// Length and rates over time.

import uPlot from '/vendor/uplot/uPlot.esm.js';
import { el } from './dom.js';
import { integer, rate } from './format.js';

const keep = 1000; // points

const theme = matchMedia('(prefers-color-scheme: dark)');
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// charts returns two nodes with charts that share their time, and add, which takes further points.
export function charts(signal) {
  const columns = [[], [], [], []];
  const length = el('div', { class: 'chart', role: 'img', 'aria-label': 'Length over time' });
  const rates = el('div', { class: 'chart', role: 'img', 'aria-label': 'Elements in and out per second over time' });
  let plots = [];
  const data = (...which) => [columns[0], ...which.map((i) => columns[i])];
  const draw = () => {
    plots.forEach((plot) => plot.destroy());
    plots = [
      plot(length, [{ label: 'elements', colour: '--accent', fill: true, value: (n) => integer(n) }], data(1), (n) => short(n)),
      plot(rates, [
        { label: 'in', colour: '--in', value: (n) => rate(n) },
        { label: 'out', colour: '--out', value: (n) => rate(n) },
      ], data(2, 3), (n) => `${short(n)}/s`),
    ];
  };
  const size = new ResizeObserver(() => plots.forEach((plot) => plot.setSize({ width: plot.root.parentNode.clientWidth, height: 170 })));
  [length, rates].forEach((node) => size.observe(node));
  theme.addEventListener('change', draw, { signal });
  signal.addEventListener('abort', () => { size.disconnect(); plots.forEach((plot) => plot.destroy()); });

  const add = (points) => {
    for (const p of points) {
      columns[0].push(p.at / 1000);
      columns[1].push(p.length);
      columns[2].push(p.in);
      columns[3].push(p.out);
    }
    columns.forEach((column) => column.splice(0, Math.max(0, column.length - keep)));
    if (plots.length === 0) draw();
    else if (points.length) [data(1), data(2, 3)].forEach((all, i) => plots[i].setData(all));
    plots.forEach(atLast);
  };
  return { length, rates, add };
}

const short = (n) => new Intl.NumberFormat('en', { notation: 'compact', maximumSignificantDigits: 3 }).format(n);

const clock = (at) => new Date(at * 1000).toLocaleTimeString('en-GB');

// atLast makes the legend tell of the last point, as long as nobody points at another one.
function atLast(u) {
  if (u.cursor.idx === null || u.cursor.left < 0) u.setLegend({ idx: u.data[0].length - 1 });
}

function plot(node, series, data, unit) {
  const axis = {
    stroke: colour('--muted'), grid: { stroke: colour('--line'), width: 1 }, ticks: { show: false }, font: '11px system-ui, sans-serif',
  };
  return new uPlot({
    width: node.clientWidth || 300,
    height: 170,
    cursor: { drag: { x: false, y: false } },
    legend: { live: true },
    scales: { y: { range: (_, low, high) => [0, Math.max(high ?? 0, 1) * 1.1] } },
    axes: [{ ...axis, space: 80, size: 28, values: (_, ticks) => ticks.map(clock) }, { ...axis, size: 56, values: (_, ticks) => ticks.map(unit) }],
    series: [{ label: 'at', value: (_, at) => (at === null ? '' : clock(at)) }, ...series.map((s) => ({
      label: s.label, stroke: colour(s.colour), width: 1.5, points: { show: false }, spanGaps: true,
      fill: s.fill ? `${colour(s.colour)}22` : undefined, value: (_, n) => (n === null || n === undefined ? '–' : s.value(n)),
    }))],
  }, data, node);
}
