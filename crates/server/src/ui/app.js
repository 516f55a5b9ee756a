// Set-up, sign-in and an overview. Text from the server only ever becomes text nodes.
const $ = (id) => document.getElementById(id);
const REFRESH_MS = 3000;
let timer;

async function call(method, path, body) {
  const options = { method, headers: {} };
  if (body) {
    options.headers["content-type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  const response = await fetch(path, options);
  const answer = await response.json();
  if (!response.ok) {
    throw Object.assign(new Error(answer.error.message), { status: response.status });
  }
  return answer;
}

function show(id) {
  for (const part of ["setup", "no-owner", "sign-in", "overview"]) $(part).hidden = part !== id;
  $("sign-out").hidden = id !== "overview";
}

function say(text) {
  $("message").textContent = text ?? "";
  $("message").hidden = !text;
}

function cell(row, text) {
  row.insertCell().textContent = text ?? "–";
}

function rows(id, list, fill, empty) {
  const body = $(id);
  body.replaceChildren();
  for (const item of list) fill(body.insertRow(), item);
  if (list.length === 0) cell(body.insertRow(), empty);
}

function button(row, text, action) {
  const it = document.createElement("button");
  it.textContent = text;
  it.onclick = async () => {
    it.disabled = true;
    try {
      await action();
      say();
    } catch (error) {
      say(error.message);
    }
    await overview();
  };
  row.lastChild.append(it);
}

async function overview() {
  clearTimeout(timer);
  try {
    const { user } = await call("GET", "/auth/me");
    $("who").textContent = `${user.username} (${user.role})`;
    show("overview");
    const sees = user.role === "owner" || user.role === "admin";
    if (sees) {
      rows("models", await call("GET", "/admin/models"), (row, model) => {
        cell(row, model.served_name);
        cell(row, model.simulator ? `${model.engine_type} (simulator: its text means nothing)` : model.engine_type);
        cell(row, model.task);
        cell(row, model.state_reason ? `${model.state}: ${model.state_reason}` : model.state);
        row.cells[3].className = model.state;
        row.insertCell();
        const path = `/admin/models/${model.id}`;
        const stopped = model.state === "stopped" || model.state === "failed";
        button(row, stopped ? "Start" : "Stop", () => call("POST", `${path}/${stopped ? "start" : "stop"}`));
      }, "No model yet: POST /admin/models makes one.");
    }
    if (user.role !== "user") {
      rows("usage", await call("GET", "/admin/usage?limit=20"), (row, it) => {
        cell(row, new Date(it.created_at).toLocaleTimeString());
        cell(row, it.model_name);
        cell(row, `${it.status_code} ${it.outcome}`);
        cell(row, it.prompt_tokens);
        cell(row, it.completion_tokens);
        cell(row, it.ttft_ms === null ? null : `${it.ttft_ms} ms`);
        cell(row, `${it.latency_ms} ms`);
      }, "No request in the last 24 hours.");
    }
    timer = setTimeout(overview, REFRESH_MS);
  } catch (error) {
    $("who").textContent = "";
    if (error.status === 401) {
      await welcome();
    } else {
      show("sign-in");
      say(error.message);
    }
  }
}

// What somebody sees who is not signed in.
async function welcome() {
  const setup = await call("GET", "/auth/setup").catch(() => ({ has_owner: true }));
  if (setup.has_owner) {
    show("sign-in");
  } else if (setup.needs_setup_token) {
    show("no-owner");
  } else {
    $("token").hidden = true;
    show("setup");
  }
}

function onSubmit(id, send) {
  $(id).onsubmit = async (event) => {
    event.preventDefault();
    const fields = Object.fromEntries([...new FormData($(id))].filter(([, value]) => value !== ""));
    try {
      await send(fields);
      say();
      await overview();
    } catch (error) {
      say(error.message);
    }
  };
}

onSubmit("sign-in", (fields) => call("POST", "/auth/login", fields));
onSubmit("setup", async (fields) => {
  await call("POST", "/admin/bootstrap-owner", fields);
  history.replaceState(null, "", "/ui/");
  await call("POST", "/auth/login", { username: fields.username, password: fields.password });
});
$("sign-out").onclick = async () => {
  await call("POST", "/auth/logout").catch(() => {});
  await overview();
};

// The token stands behind `#`, so that it never reaches a server's log. The link may be opened in a tab that is here already.
async function begin() {
  clearTimeout(timer);
  say();
  const token = /^#setup=([0-9a-f]+)$/.exec(location.hash)?.[1];
  const setup = token && await call("GET", "/auth/setup").catch(() => ({ has_owner: false }));
  if (setup && !setup.has_owner) {
    $("setup").elements.setup_token.value = token;
    $("token").hidden = false;
    show("setup");
    return;
  }
  // A link that was used before.
  if (token) history.replaceState(null, "", "/ui/");
  await overview();
}
addEventListener("hashchange", begin);
$("look-again").onclick = begin;
begin();
