// Search as one types, `/` for the search box, copy buttons. Everything else works without this script.
"use strict";
(() => {
  const body = document.body, root = body.dataset.root, box = document.getElementById("find");
  const form = box && box.closest("form"), results = document.getElementById("results");
  const isPage = Boolean(results);
  let waiting = null, requests = 0;

  // Words of a text as the index of the server has them: lower case, without accents.
  const plain = (text) => text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();
  const wordsOf = (text) => plain(text).match(/[\p{L}\p{N}]+/gu) || [];

  function element(name, attributes, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  // The index of a static site is a script that calls this: pages that are files may load scripts, and nothing else.
  function loadIndex() {
    if (!waiting) {
      waiting = new Promise((done, failed) => {
        window.lakehouseIndex = done;
        const script = element("script", { src: body.dataset.index });
        script.onerror = () => failed(new Error("the index cannot be loaded"));
        document.head.append(script);
      });
    }
    return waiting;
  }

  // The words of a text, each with the table that its prefix names: `field:address.region` looks among fields only, and
  // `field:=address.region` for that name alone.
  const TABLES = { field: ["fields", 10], attr: ["names", 11], topic: ["addresses", 12] };
  const ownersOf = (text) => [...text.matchAll(/(?:^|\s)owner:(\S*)/gi)].map((found) => found[1].toLowerCase());
  function partsOf(text) {
    return (text.replace(/(^|\s)owner:\S*/gi, " ").match(/\S+/g) || []).flatMap((part) => {
      const [, prefix, sign, name] = part.match(/^(field|attr|topic):(=?)(.*)$/i) || ["", "", "", part];
      const of = prefix ? TABLES[prefix.toLowerCase()] : ["words", 9], words = wordsOf(name);
      return sign && name ? [{ word: name, of, words, isExact: true }] : words.map((word) => ({ word, of, words }));
    });
  }

  // For each word the numbers of the entries of its table that hold it; the last word may be the beginning of one.
  const before = (entry) => entry.split("\t")[0];
  function numbersOf(index, parts) {
    index.split ||= { words: index.words.map((word) => [word]) };
    return parts.map(({ word, of: [table], isExact }, at) => {
      const found = new Set();
      if (isExact) {
        index[table].forEach((entry, number) => { if (before(entry) === word) found.add(number); });
        return found;
      }
      const entries = index.split[table] ||= index[table].map((entry) => wordsOf(before(entry)));
      const fits = at === parts.length - 1 ? (part) => part.startsWith(word) : (part) => part === word;
      entries.forEach((entry, number) => { if (entry.some(fits)) found.add(number); });
      return found;
    });
  }

  // The address, declarations and fields of a row that hold all words of a part of what is searched.
  function fragmentsOf(row, index, parts) {
    const fits = (table, name) => parts.some(({ word, of, words, isExact }) => (of[0] === "words" || of[0] === table) &&
      (isExact ? name === word : words.every((each) => wordsOf(name).some((own) => own.startsWith(each)))));
    const address = index.kinds[row[0]] === "message" ? [index.addresses[row[12]]].filter((text) => fits("addresses", text)) : [];
    const declared = row[11].map((number) => index.names[number].split("\t")).filter(([name]) => fits("names", name)).map(([, text]) => text);
    const fields = row[10].map((number) => index.fields[number]).filter((path) => fits("fields", path));
    return [...address.map((text) => "address " + text), ...declared, ...fields.map((path) => "payload field " + path)].slice(0, 4);
  }

  // How well a row fits that has all words; an id counts more than a description, and a beginning more than a middle.
  const WEIGHTS = [10, 8, 4, 3, 2];
  function score(row, index, words) {
    row.fields ||= [row[3], row[4], index.groups[row[7]], row[8].join(" "), row[5]].map(plain);
    let sum = 0;
    for (const word of words) {
      let best = 1;
      row.fields.forEach((field, at) => {
        const found = field.indexOf(word);
        if (found >= 0) best = Math.max(best, WEIGHTS[at] * (found === 0 || !/[\p{L}\p{N}]/u.test(field[found - 1]) ? 1 : 0.4));
      });
      sum += best;
    }
    return sum - row.fields[0].length / 1000;
  }

  // As a server does: only messages have a protocol and labels there.
  function fits(row, index, wanted) {
    if (wanted.label && index.kinds[row[0]] !== "message") return false;
    return Object.keys(FACETS).every((name) => !wanted[name] || FACETS[name](row, index).includes(wanted[name])) &&
      ownersOf(wanted.q || "").every((owner) => index.owners[row[13]].toLowerCase().includes(owner)) && (!wanted.group || index.groups[row[7]] === wanted.group)
      && (!wanted.label || row[8].some((label) => label === wanted.label || (!wanted.label.includes("=") && label.startsWith(wanted.label + "="))));
  }

  // Facets of the rows that have the words: values with counts among what fits the other facets, each a link.
  const FACETS = {
    kind: (row, index) => [index.kinds[row[0]]], protocol: (row, index) => index.kinds[row[0]] === "message" ? [index.protocols[row[6]] || "none"] : [],
    format: (row, index) => row[15].map((number) => index.formats[number]), registry: (row, index) => [index.registries[row[1]]],
    owner: (row, index) => [index.owners[row[13]]].filter(Boolean), state: (row, index) => row[14].map((number) => index.states[number]),
  };
  function facetsOf(rows, index, wanted) {
    const made = element("aside", { class: "facets", "aria-label": "Narrow down" });
    for (const [name, value] of Object.entries(FACETS)) {
      const counts = new Map();
      for (const row of rows) {
        for (const choice of fits(row, index, { ...wanted, [name]: "" }) ? value(row, index) : []) counts.set(choice, (counts.get(choice) || 0) + 1);
      }
      if (counts.size < (name === "state" ? 1 : 2) && !wanted[name]) continue;
      if (wanted[name] && !counts.has(wanted[name])) counts.set(wanted[name], 0);
      const list = element("ul", { class: "plain" });
      for (const [choice, count] of [...counts].sort((one, other) => other[1] - one[1] || (one[0] < other[0] ? -1 : 1)).slice(0, 12)) {
        const query = new URLSearchParams(Object.entries({ ...wanted, [name]: choice === wanted[name] ? "" : choice }).filter(([, text]) => text));
        const link = element("a", { href: root + "search.html?" + query, ...(choice === wanted[name] ? { "aria-current": "true" } : {}) }, element("bdi", {}, choice));
        list.append(element("li", {}, link, " ", element("span", { class: "quiet" }, String(count))));
      }
      made.append(element("h2", {}, name[0].toUpperCase() + name.slice(1)), list);
    }
    return made.childNodes.length ? [made] : [];
  }

  // How many letters are changed, missing, too many, or in the wrong order next to each other.
  function distance(one, other) {
    let earlier = [], before = [], row = [...other, ""].map((_, at) => at);
    for (let at = 1; at <= one.length; at++) {
      [earlier, before, row] = [before, row, [at]];
      for (let to = 1; to <= other.length; to++) {
        let cost = Math.min(before[to] + 1, row[to - 1] + 1, before[to - 1] + (one[at - 1] === other[to - 1] ? 0 : 1));
        if (at > 1 && to > 1 && one[at - 1] === other[to - 2] && one[at - 2] === other[to - 1]) cost = Math.min(cost, earlier[to - 2] + 1);
        row.push(cost);
      }
    }
    return row[other.length];
  }

  // As a server does: a text with the words of the catalog that are spelled most like those that it does not have.
  const trigrams = (word) => new Set([...`  ${word} `].slice(2).map((_, at) => `  ${word} `.slice(at, at + 3)));
  function respelled(vocabulary, text) {
    const present = new Set(vocabulary), results = new Map();
    for (const { word } of partsOf(text)) {
      if (present.has(word)) continue;
      const own = trigrams(word);
      const shares = vocabulary.map((candidate) => {
        const other = trigrams(candidate), common = [...own].filter((trigram) => other.has(trigram)).length;
        return [common / (own.size + other.size - common), candidate];
      }).filter(([share]) => share >= 0.12).sort((a, b) => b[0] - a[0] || (a[1] < b[1] ? -1 : 1)).slice(0, 200);
      const [nearest] = shares.map(([share, candidate]) => [distance([...word], [...candidate]), share, candidate])
        .sort((a, b) => a[0] - b[0] || b[1] - a[1] || (a[2] < b[2] ? -1 : 1));
      if (!nearest || nearest[0] > Math.max(1, Math.floor([...word].length / 3))) return "";
      results.set(word, nearest[2]);
    }
    return results.size ? text.replace(/[\p{L}\p{N}]+/gu, (word) => results.get(plain(word)) || word) : "";
  }

  // All hits as a server lists them: CSV, or JSON without the facets.
  const COLUMNS = ["registryid", "kind", "xid", "name", "description", "path", "protocol", "format", "owner", "state", "snapshot_id"];
  function listed(row, index) {
    const kind = index.kinds[row[0]], collection = row[2].split("/")[1], members = { message: "messages", schema: "schemas" }[kind];
    const xid = kind === "document" ? row[3] : `/${collection}/` + (members ? `${index.groups[row[7]]}/${members}/` : "") + row[3];
    const facets = ["protocol", "format", "owner", "state"].map((name) => FACETS[name](row, index).join("; "));
    return [index.registries[row[1]], kind, xid, row[4], row[5], row[2], ...facets, row[16]];
  }

  function listLink(ending, found, index) {
    const link = element("a", { href: "#results", download: "search." + ending }, ending.toUpperCase());
    const quoted = (value) => (/[",\r\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value);
    link.addEventListener("click", () => {
      const rows = found.map(([, row]) => listed(row, index)), hits = rows.map((cells) => Object.fromEntries(cells.map((value, at) => [COLUMNS[at], value])));
      const text = ending === "csv" ? [COLUMNS, ...rows].map((cells) => cells.map(quoted).join(",") + "\r\n").join("") : JSON.stringify({ total: rows.length, hits });
      link.href = URL.createObjectURL(new Blob([text]));
    });
    return link;
  }

  const FAMILIES = ["HTTP", "KAFKA", "AMQP", "MQTT", "NATS"];
  function hitsOf(index, wanted, most) {
    const parts = partsOf(wanted.q), words = parts.map((part) => part.word), sets = numbersOf(index, parts), found = [], whole = wanted.q.trim(), exact = whole.replace(/(^|\s)owner:\S*/gi, "").trim();
    const isWhole = (row) => row[3] === exact && exact && !wanted.group && !wanted.label;
    const having = [];
    for (const row of whole || isPage ? index.rows : []) {
      const has = (!exact || words.length > 0) && sets.every((set, at) => set.size > 0 && [row[parts[at].of[1]]].flat().some((number) => set.has(number)));
      if (has || isWhole(row)) having.push(row);
      if ((has || isWhole(row)) && fits(row, index, wanted)) found.push([(isWhole(row) ? 1000 : 0) + score(row, index, words), row]);
    }
    const byName = (one, other) => (one[1][3].toLowerCase() < other[1][3].toLowerCase() ? -1 : 1);
    if (wanted.order === "name") found.sort(byName);
    else if (wanted.order) found.sort((one, other) => other[1][16] - one[1][16] || byName(one, other));
    else found.sort((one, other) => other[0] - one[0] || (one[1][3] < other[1][3] ? -1 : 1));
    const list = element("ol", { class: "hits" });
    for (const [, row] of found.slice(0, most)) {
      const family = index.protocols[row[6]], link = element("a", { href: root + row[2] }, element("bdi", {}, row[3]));
      const first = element("p", {}, element("span", { class: "tag kind" }, index.kinds[row[0]]), " ", link);
      if (family) first.append(" ", element("span", { class: "tag p-" + (FAMILIES.includes(family) ? family.toLowerCase() : "other") }, family));
      const place = element("bdi", {}, [index.registries[row[1]], index.groups[row[7]]].filter(Boolean).join(" / "));
      const second = element("p", { class: "quiet" }, ...(row[5] || row[4] ? [element("span", { dir: "auto" }, row[5] || row[4]), element("br")] : []), place);
      const fragments = fragmentsOf(row, index, parts);
      if (fragments.length) second.append(" · " + fragments.join(" · "));
      list.append(element("li", {}, first, second));
    }
    const count = element("p", { class: "quiet" }, found.length === 0 ? (exact ? "Nothing has all these words." : "Nothing fits these filters.") : found.length > most ? `The best ${most} of ${found.length}.` : `${found.length} found.`);
    const meant = found.length === 0 && respelled(index.words, exact);
    if (meant) count.append(" Did you mean ", element("a", { href: root + "search.html?" + new URLSearchParams({ q: meant }) }, element("bdi", {}, meant)), "?");
    if (isPage && found.length) count.append(" As ", listLink("csv", found, index), ", ", listLink("json", found, index));
    return whole || isPage ? [list, count, ...(isPage ? facetsOf(having, index, wanted) : [])] : [];
  }

  const wantedOf = () => Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, String(value)]));

  async function answer(most) {
    const wanted = wantedOf();
    if (body.dataset.index) return hitsOf(await loadIndex(), wanted, most);
    if (!wanted.q.trim() && !isPage) return [];
    const response = await fetch(body.dataset.ask + "?" + new URLSearchParams(wanted), { headers: { accept: "text/html" } });
    const found = new DOMParser().parseFromString(await response.text(), "text/html").getElementById("results");
    if (!found) throw new Error(`${response.status} ${response.statusText}`.trim());
    for (const link of found.querySelectorAll("a[href]")) link.href = new URL(link.getAttribute("href"), response.url);
    return [...found.childNodes];
  }

  async function show() {
    const request = ++requests;
    let found;
    try { found = await answer(isPage ? 60 : MOST); } catch (error) { found = [element("p", {}, "Search does not answer: " + error.message)]; }
    if (request !== requests) return; // a later letter was typed meanwhile
    if (isPage) {
      results.replaceChildren(...found);
      history.replaceState(null, "", "?" + new URLSearchParams(Object.entries(wantedOf()).filter(([, value]) => value)));
    } else suggest(found);
  }

  // The box and what it suggests are a combobox with a list box, as ARIA 1.2 describes it: the focus stays in the box.
  const MOST = 12, list = element("ol", { id: "suggestions", class: "hits", role: "listbox", "aria-label": "Suggestions" });
  const status = element("p", { class: "quiet", role: "status" }), panel = element("div", { class: "suggest" }, list, status);
  const options = () => [...list.querySelectorAll("[role=option]")], picked = () => list.querySelector("[aria-selected=true]");
  function pick(next) {
    box.removeAttribute("aria-activedescendant");
    options().forEach((option, at) => option.setAttribute("aria-selected", String(at === next)));
    if (picked()) { box.setAttribute("aria-activedescendant", picked().id); picked().scrollIntoView({ block: "nearest" }); }
  }

  function expand(isOpen) {
    panel.hidden = !isOpen;
    box.setAttribute("aria-expanded", String(isOpen && options().length > 0));
    pick(-1);
  }

  function suggest(found) {
    const answered = element("div", {}, ...found);
    list.replaceChildren(...[...answered.querySelectorAll(".hits > li")].slice(0, MOST).map((row, at) => {
      const link = row.querySelector("a"), option = element("a", { role: "option", id: "suggestion-" + at, tabindex: "-1", href: link.href });
      link.replaceWith(element("strong", {}, ...link.childNodes));
      option.append(...row.childNodes);
      return element("li", { role: "none" }, option);
    }));
    status.replaceChildren(...[...answered.querySelectorAll(":scope > p, .pager > .quiet:first-child")].flatMap((node) => [...node.childNodes, " "]));
    expand(found.length > 0);
  }

  async function step(by) {
    if (panel.hidden) await show();
    const all = options(), at = all.indexOf(picked());
    pick(((at + 1 + by + all.length + 1) % (all.length + 1)) - 1); // past either end it is the box
  }

  // On the page of the search, arrows lead through the links of the hits.
  function walk(event, by) {
    const links = [...results.querySelectorAll(".hits a")], at = links.indexOf(document.activeElement);
    if (at < 0 && event.target !== box) return;
    event.preventDefault();
    (links[at + by] || (at + by < 0 ? box : links[at]))?.focus();
  }

  if (form) {
    let timer = 0;
    form.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(show, body.dataset.index ? 60 : 120); });
    if (body.dataset.index) box.addEventListener("focus", () => loadIndex().catch(() => {}));
    const ARROWS = { ArrowDown: 1, ArrowUp: -1 };
    if (isPage) {
      form.addEventListener("submit", (event) => { event.preventDefault(); show(); });
      document.addEventListener("keydown", (event) => { if (ARROWS[event.key]) walk(event, ARROWS[event.key]); });
    } else {
      for (const [name, value] of Object.entries({ role: "combobox", "aria-autocomplete": "list", "aria-controls": list.id })) box.setAttribute(name, value);
      form.append(panel);
      expand(false);
      box.addEventListener("keydown", (event) => {
        if (ARROWS[event.key]) { event.preventDefault(); step(ARROWS[event.key]); }
        else if (event.key === "Enter" && picked()) { event.preventDefault(); location.href = picked().href; }
        else if (event.key === "Escape" && !panel.hidden) { event.preventDefault(); ++requests; expand(false); }
      });
      form.addEventListener("focusout", (event) => { if (!form.contains(event.relatedTarget)) expand(false); });
      if (box.value && document.activeElement === box) show(); // it was typed before this script was there
    }
    document.addEventListener("keydown", (event) => {
      if (event.key === "/" && !/^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName)) { event.preventDefault(); box.focus(); box.select(); }
    });
    if (isPage && body.dataset.index) {
      for (const [name, value] of new URLSearchParams(location.search)) { const field = form.elements.namedItem(name); if (field) field.value = value; }
      show();
    }
  }

  // Browsers have a clipboard for scripts on https and on this machine only; elsewhere a selected text can be copied.
  async function copy(text, shown) {
    if (navigator.clipboard) {
      try { await navigator.clipboard.writeText(text); return "Copied"; } catch (error) { /* not allowed: as without it */ }
    }
    getSelection().selectAllChildren(shown);
    return document.execCommand("copy") ? "Copied" : "Selected";
  }

  for (const button of document.querySelectorAll(".copy")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      const label = button.firstChild;
      const shown = button.parentElement.querySelector("code");
      label.data = await copy(shown.textContent, shown);
      setTimeout(() => { label.data = "Copy"; }, 1500);
    });
  }

  // The map: what has the focus, or is pointed at, with its neighbours; all else fades.
  for (const drawing of document.querySelectorAll(".drawing")) {
    const focus = (target) => {
      const at = target && target.closest("[data-box]")?.dataset.box, near = new Set([at]), lines = drawing.querySelectorAll("[data-ends]");
      lines.forEach((line) => { const ends = line.dataset.ends.split(" "); if (ends.includes(at)) ends.forEach((end) => near.add(end)); });
      lines.forEach((line) => line.classList.toggle("aside", Boolean(at) && !line.dataset.ends.split(" ").includes(at)));
      drawing.querySelectorAll("[data-box]").forEach((box) => box.classList.toggle("aside", Boolean(at) && !near.has(box.dataset.box)));
    };
    for (const event of ["focusin", "mouseover"]) drawing.addEventListener(event, (happened) => focus(happened.target));
    for (const event of ["focusout", "mouseleave"]) drawing.addEventListener(event, () => focus(null));

    // For the keyboard it is one stop: arrows move in a column, and over a line, where there is one, to the column beside it.
    const boxes = [...drawing.querySelectorAll("[data-box]")], placeOf = (box) => box.querySelector("rect").getBBox();
    const select = (box) => boxes.forEach((each) => { each.querySelector("a").tabIndex = each === box ? 0 : -1; });
    const pairs = new Set([...drawing.querySelectorAll("[data-ends]")].map((line) => line.dataset.ends).flatMap((ends) => [ends, ends.split(" ").reverse().join(" ")]));
    const nextOf = (box, key) => {
      const { x, y } = placeOf(box), by = key === "ArrowLeft" || key === "ArrowUp" ? -1 : 1;
      const far = (other) => Math.abs(placeOf(other).y - y), isBeyond = (here, there) => (there - here) * by > 0;
      if (key === "ArrowUp" || key === "ArrowDown") {
        return boxes.filter((other) => placeOf(other).x === x && isBeyond(y, placeOf(other).y)).sort((one, two) => far(one) - far(two))[0];
      }
      const beside = boxes.filter((other) => isBeyond(x, placeOf(other).x)), joined = beside.filter((other) => pairs.has(`${box.dataset.box} ${other.dataset.box}`));
      return (joined.length ? joined : beside).sort((one, two) => Math.abs(placeOf(one).x - x) - Math.abs(placeOf(two).x - x) || far(one) - far(two))[0];
    };
    if (boxes.length) select(boxes.reduce((one, two) => (placeOf(two).x < placeOf(one).x ? two : one)));
    drawing.setAttribute("aria-description", "Arrow keys move from box to box.");
    drawing.addEventListener("keydown", (event) => {
      const box = event.target.closest("[data-box]");
      if (!box || !event.key.startsWith("Arrow") || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      const next = nextOf(box, event.key);
      if (next) { select(next); next.querySelector("a").focus(); }
    });
  }
})();
