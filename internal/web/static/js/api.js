// Asks the page's server, and keeps asking.

let token = '';

async function answer(response) {
  let body;
  try {
    body = await response.json();
  } catch {
    throw new Error(`the page's server answered ${response.status} ${response.statusText}`);
  }
  if (body.token) token = body.token;
  if (!response.ok) throw Object.assign(new Error(body.error), { status: response.status });
  return body;
}

const away = (err) => {
  if (err.status || err.name === 'AbortError') throw err;
  throw Object.assign(new Error('the page’s server does not answer'), { cause: err });
};

// get asks for a path. id is the name of a list as it is in addresses.
export async function get(path, signal, patience = 15000) {
  const limit = AbortSignal.timeout(patience);
  try {
    return await answer(await fetch(path, { signal: signal ? AbortSignal.any([signal, limit]) : limit }));
  } catch (err) {
    return away(err);
  }
}

// post asks for something to be done.
export async function post(path, body = {}) {
  const headers = { 'Content-Type': 'application/json', 'X-Shardedlist-Token': token };
  try {
    return await answer(await fetch(path, { method: 'POST', headers, body: JSON.stringify(body) }));
  } catch (err) {
    return away(err);
  }
}

// poll calls step again and again until the signal aborts, while somebody can see the page. It tells what became of each call.
export async function poll(step, pause, signal, told) {
  while (!signal.aborted) {
    if (document.hidden) await once(document, 'visibilitychange', signal);
    if (signal.aborted) return;
    try {
      await step();
      told(null);
    } catch (err) {
      if (signal.aborted) return;
      told(err);
    }
    await new Promise((resolve) => {
      const timer = setTimeout(resolve, pause);
      signal.addEventListener('abort', () => { clearTimeout(timer); resolve(); }, { once: true });
    });
  }
}

const once = (target, event, signal) => new Promise((resolve) => {
  target.addEventListener(event, resolve, { once: true, signal });
  signal.addEventListener('abort', resolve, { once: true });
});
