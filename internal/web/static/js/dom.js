// Makes elements. Text goes into text nodes only: what comes from the server is whatever somebody has pushed.

const svg = new Set(['svg', 'g', 'rect', 'path', 'polyline', 'title', 'text', 'line']);

// el makes an element. Attributes that are functions are listeners, those that are null or false are left out.
export function el(tag, attributes = {}, ...children) {
  const node = svg.has(tag) ? document.createElementNS('http://www.w3.org/2000/svg', tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function') node.addEventListener(name, value);
    else if (name === 'value' || name === 'checked' || name === 'disabled') node[name] = value;
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? '' : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

// fill replaces what is in a node, unless the text would be the same: a selection and the focus stay where they are.
export function fill(node, ...children) {
  children = children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
  if (children.length === 1 && typeof children[0] === 'string') {
    if (node.textContent !== children[0]) node.textContent = children[0];
    return node;
  }
  node.replaceChildren(...children);
  return node;
}

export const byId = (id) => document.getElementById(id);
