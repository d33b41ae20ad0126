// Numbers with their units, and bytes that can be seen.

import { el } from './dom.js';

const integers = new Intl.NumberFormat('en');
const rates = new Intl.NumberFormat('en', { maximumSignificantDigits: 3 });
const sizes = new Intl.NumberFormat('en', { maximumSignificantDigits: 3 });

export const integer = (n) => integers.format(n);

export const plural = (n, one, many = one + 's') => `${integer(n)} ${n === 1 ? one : many}`;

export function rate(perSecond, exact = true) {
  if (perSecond === null || perSecond === undefined) return '–';
  if (perSecond < 0.05) return exact ? '0/s' : '–';
  return `${exact ? '' : '≥ '}${rates.format(perSecond < 10 ? Math.round(perSecond * 10) / 10 : Math.round(perSecond))}/s`;
}

export function bytes(n) {
  if (!n) return '–';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  for (; n >= 1024 && unit < units.length - 1; unit++) n /= 1024;
  return `${sizes.format(n >= 100 ? Math.round(n) : n)} ${units[unit]}`;
}

export function duration(ms) {
  if (ms < 0) ms = 0;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const s = Math.round(ms / 1000);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

export const time = (ms) => new Date(ms).toISOString().replace('T', ' ').replace(/\.\d+Z$/, ' UTC');

export function decode(base64) {
  return Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
}

export function encode(data) {
  let binary = '';
  for (let i = 0; i < data.length; i += 0x8000) binary += String.fromCharCode(...data.subarray(i, i + 0x8000));
  return btoa(binary);
}

// asText returns the text that bytes are, or null if they are not UTF-8. Of bytes that were cut, the last character may be missing.
export function asText(data, cut) {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(data, { stream: cut });
  } catch {
    return null;
  }
}

// What is not seen, or changes how the rest is seen: control characters but line feed and tab, and marks such as those that turn the direction.
const unseen = /([\p{Cc}\p{Cf}\p{Co}\p{Cn}\u2028\u2029\u115f\u1160\u3164\uffa0])/u;

// visible returns a text as nodes, in which such characters are named.
export function visible(text) {
  return text.split(unseen).filter((piece) => piece !== '').map((piece) => {
    if (!unseen.test(piece) || piece === '\n' || piece === '\t') return document.createTextNode(piece);
    const code = piece.codePointAt(0);
    return el('span', { class: 'unseen' }, code < 0x20 ? String.fromCodePoint(0x2400 + code) : `U+${code.toString(16).toUpperCase().padStart(4, '0')}`);
  });
}

const deepest = 20; // levels that are indented: an element may be thousands of brackets

// indented lays JSON out on several lines. Each of its tokens stays as it is, since numbers may have more digits than those of JavaScript,
// and names may come twice.
export function indented(json) {
  const tokens = json.match(/"(?:[^"\\]|\\.)*"|[[\]{},:]|[^\s"[\]{},:]+/g);
  let depth = 0;
  const line = () => `\n${'  '.repeat(Math.min(depth, deepest))}`;
  return tokens.map((token, i) => {
    switch (token) {
      case '{': case '[':
        depth++;
        return '}]'.includes(tokens[i + 1]) ? token : token + line();
      case '}': case ']':
        depth--;
        return '{['.includes(tokens[i - 1]) ? token : line() + token;
      case ',': return `,${line()}`;
      case ':': return ': ';
      default: return token;
    }
  }).join('');
}

// hex returns bytes as a hex dump, sixteen in a line.
export function hex(data) {
  const lines = [];
  for (let at = 0; at < data.length; at += 16) {
    const row = [...data.subarray(at, at + 16)];
    const digits = row.map((b) => b.toString(16).padStart(2, '0')).join(' ');
    const ascii = row.map((b) => (b >= 0x20 && b < 0x7f ? String.fromCharCode(b) : '.')).join('');
    lines.push(`${at.toString(16).padStart(6, '0')}  ${digits.padEnd(47)}  ${ascii}`);
  }
  return lines.join('\n');
}
