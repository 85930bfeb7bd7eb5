/*
 * The page of `export html`: memory over time on top, with what was allocated per second; below it the flame graph, the callers and callees of a function and the sites, of the moment that is chosen there (a click),
 * of what has come over a range (a drag), or of what was allocated since the start. The numbers are in the element `data`, as html.c writes them; all texts go in as text,
 * never as markup. What is shown can be linked to: #at=MS, #at=peak, #from=MS&to=MS, #cost=allocated|allocations|temporary.
 *
 * Everything is a sum over columns: the stacks of one path and one site; or those that are folded into (others), once by path, site -1, and once by site, node -1. A path is its
 * frames, outermost first. The trees (top-down, bottom-up, callers, callees) are made while they
 * are drawn, down to what is wide enough to be seen: a node has the columns that go through it and where in their paths it is; its children are these by the next frame.
 */
(function () {
	"use strict";

	var d = JSON.parse(document.getElementById("data").textContent);
	var SVG = "http://www.w3.org/2000/svg", LEFT = 74, RIGHT = 16, TOP = 48, HEIGHT = 230, BOTTOM = 24, RATES = 76, ROW = 19, DEEPEST = 80, SERIES = 8, LEAST = 0.7;
	var columns = pairs(d.columns), nodes = [[0, 0]].concat(pairs(d.nodes)), sites = { 0: [0, "(others)", "", 0, -1] }, paths = columns.map(function (c) { return path_of(c[0]); });
	var keys, whole = [], from = null, to = 0, range = null, cost = "live", shape = "down", flipped = false, pattern = null, filter = "", shown_rows = 25, order = "size", ascending = false;
	var sums = null, roots = [], zoom = [], rects = [], cursor = null, selected = null, modules_of = null, shorts = new Map(), dark = matchMedia("(prefers-color-scheme: dark)");

	columns.push([0, 0]);	/* what is in no other */
	paths.push([0]);
	keys = decode(d.keys);
	to = keys.length - 1;

	/* ---- the numbers ---- */

	function pairs(flat) {
		var out = [];

		for (var i = 0; i < flat.length; i += 2)
			out.push([flat[i], flat[i + 1]]);
		return out;
	}

	function path_of(node) {
		var path = [];

		for (; node > 0; node = nodes[node][0])
			path.push(nodes[node][1]);
		return path.reverse();
	}

	function decode(list) {
		return list.map(function (k) { return { from: k[0], ms: k[1], size: k[2], number: k[3], changes: k[4], bytes: null, count: null }; });
	}

	function apply(changes, bytes, count) {
		for (var i = 0; i < changes.length; i += 3) {
			bytes[changes[i]] = changes[i + 1];
			count[changes[i]] = changes[i + 2];
		}
	}

	/* Each key moment says what differs from the one before. The three that were looked at last are kept with all that they hold. */
	function key(at) {
		var k = keys[at], n = columns.length;

		if (k.bytes) {
			whole.splice(whole.indexOf(k), 1);
			whole.push(k);
		} else {
			k.bytes = new Float64Array(n);
			k.count = new Float64Array(n);
			for (var i = 0; i <= at; i++)
				apply(keys[i].changes, k.bytes, k.count);
			k.bytes[n - 1] = k.size - by_paths(k.bytes);
			k.count[n - 1] = k.number - by_paths(k.count);
			whole.push(k);
			if (whole.length > 3)
				(k = whole.shift()).bytes = k.count = null;
		}
		return keys[at];
	}

	/* The sum of all columns that have a path: each stack is in one of these. */
	function by_paths(list) {
		var sum = 0;

		for (var i = 0; i < columns.length; i++)
			if (columns[i][0] >= 0)
				sum += list[i];
		return sum;
	}

	function add_up(list) { return list.reduce(function (sum, n) { return sum + n; }, 0); }

	/* What each column has of what is shown: value, and blocks beside it; their sums. */
	function amounts() {
		var now = key(to), then = from === null ? null : key(from), value, blocks, n = columns.length, part = { allocated: 0, allocations: 1, temporary: 2 }[cost];

		if (cost === "live")
			return { value: now.bytes, blocks: now.count, size: now.size, count: now.number };
		if (cost === "difference") {
			value = now.bytes.map(function (v, i) { return v - then.bytes[i]; });
			blocks = now.count.map(function (v, i) { return v - then.count[i]; });
			return { value: value, blocks: blocks, size: now.size - then.size, count: now.number - then.number };
		}
		value = new Float64Array(n);
		blocks = new Float64Array(n);
		for (var i = 0; i < n - 1; i++) {
			value[i] = d.totals[3 * i + part];
			blocks[i] = d.totals[3 * i + (part || 1)];
		}
		value[n - 1] = d.total[part] - by_paths(value);
		blocks[n - 1] = d.total[part || 1] - by_paths(blocks);
		return { value: value, blocks: blocks, size: d.total[part], count: d.total[part || 1] };
	}

	function is_bytes() { return cost !== "allocations" && cost !== "temporary"; }

	function key_at(ms) {
		var best = 0;

		for (var i = 0; i < keys.length; i++)
			if (keys[i].from <= ms)
				best = i;
		return best;
	}

	function peak_key() {
		return keys.reduce(function (best, k, i) { return k.size > keys[best].size ? i : best; }, 0);
	}

	/* ---- texts ---- */

	function digits(n) { return String(n).replace(/\B(?=(\d{3})+$)/g, ","); }
	function signed(n) { return (d.estimated ? "~" : "") + (cost !== "difference" ? digits(n) : (n > 0 ? "+" : n < 0 ? "\u2212" : "") + digits(Math.abs(n))); }

	function short_bytes(n) {
		var units = ["B", "KiB", "MiB", "GiB", "TiB"], i = 0;

		for (; n >= 1023.95 && i < 4; i++)
			n /= 1024;
		return (i ? n.toFixed(1) : n) + " " + units[i];
	}

	function short_number(n) { return n < 1e4 ? digits(Math.round(n)) : n < 1e6 ? (n / 1e3).toFixed(1) + " k" : n < 1e9 ? (n / 1e6).toFixed(2) + " M" : (n / 1e9).toFixed(2) + " G"; }
	function number_of(n, what) { return about(digits(n)) + " " + what + (n === 1 ? "" : "s"); }
	function about(n) { return (d.estimated ? "~" : "") + n; }
	function two(n) { return (n < 10 ? "0" : "") + n; }

	function seconds(ms) {
		var s = Math.floor(ms / 1000);

		return ms < 7200000 ? (ms / 1000).toFixed(ms % 100 ? 3 : 1) + " s" : Math.floor(s / 3600) + ":" + two(Math.floor(s / 60) % 60) + ":" + two(s % 60) + " h";
	}

	function share(n, of) { return of ? (100 * n / of).toFixed(1) + " %" : ""; }
	function last_part(path) { return path.split("/").pop(); }
	function place(f, file, line) { return f[file] ? last_part(f[file]) + (f[line] ? ":" + f[line] : "") : ""; }

	/* What a value is called, with its blocks. */
	/* What is between the brackets of a template's arguments, singly. */
	function split(text) {
		var parts = [], depth = 0, from = 0;

		for (var i = 0; i <= text.length; i++) {
			if (i === text.length || !depth && text[i] === ",") {
				parts.push(text.slice(from, i).trim());
				from = i + 1;
			}
			depth += /[({[\x03]/.test(text[i]) ? 1 : /[)}\]\x04]/.test(text[i]) ? -1 : 0;
		}
		return parts;
	}

	/*
	 * C++ names as people write them, without what the standard's templates have by default (symbols/short_name.c). From the innermost brackets out: \x03 and \x04 stand for
	 * those that were seen to, \x01 and \x02 for the signs of operators.
	 */
	function shorten(name) {
		var text = name.replace(/\[abi:\w+\]/g, "").replace(/\bstd::(__cxx11|__1)::/g, "std::"), before;

		text = text.replace(/\boperator[-<>=]+\*?|->/g, function (sign) { return sign.replace(/</g, "\x01").replace(/>/g, "\x02"); });
		do {
			before = text;
			text = text.replace(/(\bstd::basic_(\w+))?<([^<>]*)>/g, function (all, basic, kind, inner) {
				var parts = split(inner);

				while (parts.length > 1 && /^std::(allocator|less|hash|equal_to|default_delete|char_traits)\x03/.test(parts[parts.length - 1]))
					parts.pop();
				return basic && parts.join() === "char" ? "std::" + kind : (basic || "") + "\x03" + parts.join(", ") + "\x04";
			});
		} while (text !== before);
		return text.replace(/[\x01\x03]/g, "<").replace(/[\x02\x04]/g, ">");
	}

	function short(name) {
		if (name.indexOf("<") < 0)
			return name;
		if (!shorts.has(name))
			shorts.set(name, shorten(name));
		return shorts.get(name);
	}

	function is_found(name) { return pattern.test(name) || pattern.test(short(name)); }

	function told(value, blocks) {
		if (cost === "allocations" || cost === "temporary")
			return signed(value) + (cost === "temporary" ? " temporary" : "") + " allocations";
		return signed(value) + " bytes" + (cost === "difference" ? ", " : " in ") + signed(blocks) + (cost === "allocated" ? " allocations" : " blocks");
	}

	function make(parent, name, attributes, text) {
		var e = parent instanceof SVGElement ? document.createElementNS(SVG, name) : document.createElement(name);

		for (var a in attributes)
			e.setAttribute(a, attributes[a]);
		if (text !== undefined)
			e.textContent = text;
		parent.appendChild(e);
		return e;
	}

	function by_id(id) { return document.getElementById(id); }

	function button(parent, text, fn, attributes) {
		var b = make(parent, "button", { type: "button" }, text);

		for (var a in attributes)
			b.setAttribute(a, attributes[a]);
		b.addEventListener("click", fn);
		return b;
	}

	/* A table with HEAD ([text, class] each); its body. */
	function name_cell(row, name) {
		var cell = make(row, "td", { "class": "name" }, short(name));

		if (short(name) !== name)
			cell.title = name;
	}

	function table_with(parent, head, attributes) {
		var table = make(parent, "table", attributes), row = make(make(table, "thead", {}), "tr", {});

		head.forEach(function (h) { make(row, "th", { "class": h[1] }, h[0]); });
		return make(table, "tbody", {});
	}

	/* ---- what the pointer is on ---- */

	function tip(e, text) {
		var box = by_id("tip"), w = document.documentElement.clientWidth;

		box.hidden = !text;
		if (!text)
			return;
		box.textContent = text;
		box.style.left = Math.max(4, Math.min(e.clientX + 14, w - box.offsetWidth - 8)) + "px";
		box.style.top = (e.clientY + 18 + box.offsetHeight > innerHeight ? Math.max(4, e.clientY - box.offsetHeight - 10) : e.clientY + 18) + "px";
	}

	/* ---- colours ---- */

	function hash(text) {
		var h = 2166136261;

		for (var i = 0; i < text.length; i++)
			h = Math.imul(h ^ text.charCodeAt(i), 16777619);
		return (h ^ h >>> 15) >>> 0;
	}

	function is_libc(path) { return /\/(libc|ld)[-.][^/]*$|\/ld-linux[^/]*$|^\[/.test(path) || !path; }

	/* The program's own code is orange, libc and what has no module grey, each other module has a colour of its own; a function is somewhat lighter or darker. */
	function module_colour(module, name) {
		var hues = [205, 140, 280, 335, 172, 52, 235, 12, 100, 300], vary = name ? hash(name) % 13 - 6 : 0, path = d.modules[module], light = dark.matches ? 58 : 74, rank = 0;

		if (path === undefined || module !== d.own && is_libc(path))
			return "hsl(215, 8%, " + (light + vary / 2) + "%)";
		if (module === d.own)
			return "hsl(" + (34 + vary) + ", " + (dark.matches ? 62 : 85) + "%, " + (light - 2 + vary / 2) + "%)";
		for (var i = 0; i < module; i++)
			rank += i !== d.own && !is_libc(d.modules[i]);
		return "hsl(" + (hues[rank % hues.length] + vary) + ", " + (dark.matches ? 38 : 55) + "%, " + (light + vary / 2) + "%)";
	}

	function frame_colour(node) {
		if (cost === "difference" && node.frame !== 0)
			return node.size >= 0 ? dark.matches ? "#c9705c" : "#f2a08c" : dark.matches ? "#5a8fc4" : "#9fc6ee";
		return node.parent || node.frame > 0 ? module_colour(node.frame ? d.frames[node.frame][2] : undefined, name_of(node.frame)) : dark.matches ? "#59626c" : "#c9cfd6";
	}

	var PALETTE = ["#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#b07aa1", "#76b7b2", "#d4a62a", "#9c755f"];

	/* ---- cards ---- */

	function card(parent, id, label, value, more) {
		var c = make(parent, "div", { "class": "card", id: "card-" + id });

		make(c, "div", { "class": "label" }, label);
		make(c, "div", { "class": "value" }, value);
		make(c, "div", { "class": "soft" }, more);
	}

	function draw_cards(body) {
		var cards = make(body, "section", { id: "cards", "aria-label": "summary" }), end = keys[keys.length - 1], s = (d.now_ms - d.began_ms) / 1000, lost = d.leaks ? d.leaks.sums : null;

		card(cards, "peak", "peak", about(short_bytes(d.peak)), "at " + seconds(d.peak_ms));
		card(cards, "live", "live", about(short_bytes(end.size)), number_of(end.number, "block"));
		if (d.total) {
			card(cards, "allocated", "allocated in total", about(short_bytes(d.total[0])), number_of(d.total[1], "allocation"));
			card(cards, "temporary", "temporary", about(digits(d.total[2])), share(d.total[2], d.total[1]) + " of allocations");
			card(cards, "rate", "allocations per second", s > 0 ? about(short_number(d.total[1] / s)) : "", s > 0 ? short_bytes(Math.round(d.total[0] / s)) + "/s" : "");
		}
		if (lost)
			card(cards, "leaked", "leaked", short_bytes(lost[0][1] + lost[1][1]), number_of(lost[0][2] + lost[1][2], "block"));
		if (d.residency)
			card(cards, "rss", "RSS", short_bytes(d.residency.rss - d.residency.mtrun), d.residency.swapped ? short_bytes(d.residency.swapped) + " swapped out" : "without mtrun's part");
		if (d.events && !d.residency)
			card(cards, "rss", "RSS", "", "without mtrun's part");
	}

	function set_card(id, value, more) {
		var c = by_id("card-" + id);

		if (!c)
			return;
		c.children[1].textContent = value;
		c.children[2].textContent = more;
	}

	/* ---- the timeline ---- */

	var chart, width, last = Math.max(d.now_ms, d.began_ms + 1), loaded = last, highest = Math.max(d.peak, 1), seen = null, series;

	function first_ms() { return seen ? seen[0] : d.began_ms; }
	function last_ms() { return seen ? seen[1] : last; }
	function x_of(ms) { return LEFT + (ms - first_ms()) / (last_ms() - first_ms()) * (width - LEFT - RIGHT); }
	function inside(ms) { return Math.min(last_ms(), Math.max(first_ms(), ms)); }
	function y_of(bytes) { return TOP + HEIGHT - bytes / highest * HEIGHT; }
	function ms_of(x) { return inside(first_ms() + (x - LEFT) / (width - LEFT - RIGHT) * (last_ms() - first_ms())); }

	/* The functions whose sites held most at any moment, with what they held at each key. */
	function make_series() {
		var by = {}, of = [], held, list, n = columns.length - 1, bytes = new Float64Array(n), count = new Float64Array(n);

		for (var i = 0; i < n; i++) {
			var name = columns[i][1] > 0 ? sites[columns[i][1]][1] : "";

			of.push(columns[i][1] > 0 ? by["_" + name] = by["_" + name] || { name: name, most: 0, held: new Float64Array(keys.length) } : null);
		}
		keys.forEach(function (k, at) {
			apply(k.changes, bytes, count);
			for (var i = 0; i < n; i++)
				if (of[i] && bytes[i]) {
					held = of[i].held[at] += bytes[i];
					if (held > of[i].most)
						of[i].most = held;
				}
		});
		list = Object.keys(by).map(function (name) { return by[name]; }).sort(function (a, b) { return b.most - a.most; });
		return list.filter(function (s) { return s.most >= highest / 200; }).slice(0, SERIES);
	}

	/* Steps that are easy to read, so that there are few of them. */
	function step_of(range, most, base) {
		var s = base;

		for (var i = 0; range / s > most; i++)
			s = base * Math.pow(10, Math.floor(i / 3)) * [1, 2, 5][i % 3];
		return s;
	}

	function time_step(range) {
		var steps = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800, 86400], i = 0;

		while (i < steps.length - 1 && range / (steps[i] * 1000) > 12)
			i++;
		return Math.max(steps[i] * 1000, i < steps.length - 1 ? 0 : Math.ceil(range / 12 / 86400000) * 86400000);
	}

	function clock(ms) {
		var s = Math.floor(ms / 1000);

		return last < 120000 || last_ms() - first_ms() < 12000 ? Math.round(ms) / 1000 + " s" : last < 7200000 ? Math.floor(s / 60) + ":" + two(s % 60) :
			Math.floor(s / 3600) + ":" + two(Math.floor(s / 60) % 60) + " h";
	}

	function draw_axes() {
		var unit = 1, names = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"], name = 0, step;

		for (; highest / unit >= 1024; name++)
			unit *= 1024;
		step = step_of(highest, 5, unit === 1 ? 1 : unit / 10);
		for (var i = 0; i * step <= highest; i++) {
			make(chart, "line", { "class": "grid", x1: LEFT, x2: width - RIGHT, y1: y_of(i * step), y2: y_of(i * step) });
			make(chart, "text", { x: LEFT - 6, y: y_of(i * step) + 4, "text-anchor": "end" }, i ? +(i * step / unit).toFixed(1) + " " + names[name] : "0");
		}
		step = time_step(last_ms() - first_ms());
		for (var t = Math.ceil(first_ms() / step) * step; t <= last_ms(); t += step)
			make(chart, "text", { x: x_of(t), y: TOP + HEIGHT + 16, "text-anchor": x_of(t) > width - RIGHT - 20 ? "end" : "middle" }, clock(t));
	}

	/* The steps of the curve that are seen: [from, to, bytes, the key moment before, or the first; -1: what is held there is not known]. */
	function steps() {
		var list = [], k = -1, a, b, end;

		for (var i = 0; i < d.curve.length; i += 2) {
			a = d.curve[i];
			end = i + 2 < d.curve.length ? d.curve[i + 2] : last;
			while (k + 1 < keys.length && keys[k + 1].ms <= a)
				k++;
			for (; a < end || a === end && i + 2 >= d.curve.length; a = b) {
				b = k + 1 < keys.length && keys[k + 1].ms < end ? keys[k + 1].ms : end;
				if (b >= first_ms() && a <= last_ms())
					list.push([inside(a), inside(b), d.curve[i + 1], a >= loaded && d.events ? -1 : Math.max(k, 0)]);
				if (b >= end)
					break;
				k++;
			}
		}
		return list;
	}

	function outline(list, top, bottom) {
		var there = "", back = "", x0, x1;

		list.forEach(function (s, i) {
			x0 = x_of(s[0]).toFixed(1);
			x1 = x_of(s[1]).toFixed(1);
			there += (i ? "L" : "M") + x0 + " " + top[i].toFixed(1) + "L" + x1 + " " + top[i].toFixed(1);
			back = "L" + x1 + " " + bottom[i].toFixed(1) + "L" + x0 + " " + bottom[i].toFixed(1) + back;
		});
		return there + back + "Z";
	}

	/*
	 * What series S holds where the curve is at BYTES, from key moment K on. Between two key moments the composition goes from the earlier one's to the later one's as the curve does;
	 * below or above both it is in proportion.
	 */
	function held_at(s, k, bytes) {
		var next = Math.min(k + 1, keys.length - 1), by, part, size;

		if (k < 0)
			return 0;
		by = keys[next].size - keys[k].size;
		part = by ? Math.min(1, Math.max(0, (bytes - keys[k].size) / by)) : 0;
		size = keys[k].size + part * by;
		return size > 0 ? Math.max(0, s.held[k] + part * (s.held[next] - s.held[k])) * bytes / size : 0;
	}

	function draw_curve() {
		var list = steps(), base = list.map(function () { return y_of(0); }), top, sum = list.map(function () { return 0; }), edge = "";

		if (!list.length)
			return;
		top = list.map(function (s) { return y_of(s[2]); });
		make(chart, "path", { "class": "area", d: outline(list, top, base) });
		series.forEach(function (s, n) {
			var bottom = base;

			sum = list.map(function (l, i) { return Math.min(l[2], sum[i] + held_at(s, l[3], l[2])); });
			base = sum.map(y_of);
			make(chart, "path", { "class": "series", fill: PALETTE[n], d: outline(list, base, bottom) });
		});
		list.forEach(function (s, i) { edge += (i ? "L" : "M") + x_of(s[0]).toFixed(1) + " " + top[i].toFixed(1) + "L" + x_of(s[1]).toFixed(1) + " " + top[i].toFixed(1); });
		make(chart, "path", { "class": "edge", d: edge });
	}

	/* ---- how much is allocated, under the timeline ---- */

	function has_rates() { return d.activity.length > 3; }

	/* What was allocated up to MS: [all, temporary ones]. */
	function allocated_at(ms) {
		var a = d.activity, i = 0, end = a.length / 3, middle, part;

		while (end - i > 1) {
			middle = (i + end) >> 1;
			if (a[3 * middle] <= ms)
				i = middle;
			else
				end = middle;
		}
		if (ms < a[0])
			return [0, 0];
		part = 3 * i + 3 < a.length ? (ms - a[3 * i]) / (a[3 * i + 3] - a[3 * i]) : 0;
		return [1, 2].map(function (k) { return part ? a[3 * i + k] + part * (a[3 * i + 3 + k] - a[3 * i + k]) : a[3 * i + k]; });
	}

	/* By the second, over stretches of at least two pixels and whole multiples of 10 ms: [from, to, allocations, temporary ones]. */
	function rates() {
		var most = Math.max(1, Math.floor((width - LEFT - RIGHT) / 2)), by = 10 * Math.max(1, Math.ceil((last_ms() - first_ms()) / most / 10)), list = [],
			from = Math.floor(first_ms() / by) * by, before = allocated_at(from), now;

		for (; from < last_ms(); from += by) {
			now = allocated_at(from + by);
			list.push([inside(from), inside(from + by), (now[0] - before[0]) * 1000 / by, (now[1] - before[1]) * 1000 / by]);
			before = now;
		}
		return list;
	}

	function draw_rates() {
		var list = rates(), bottom = TOP + HEIGHT + BOTTOM + RATES, base = list.map(function () { return bottom; }), most = 1, top = TOP + HEIGHT + BOTTOM + 20, x = LEFT;

		function y(rate) { return bottom - rate / most * (bottom - top); }
		list.forEach(function (r) { most = Math.max(most, r[2]); });
		[top, bottom].forEach(function (y) { make(chart, "line", { "class": "grid", x1: LEFT, x2: width - RIGHT, y1: y, y2: y }); });
		make(chart, "path", { "class": "allocating", d: outline(list, list.map(function (r) { return y(r[2]); }), base) });
		make(chart, "path", { "class": "temporary", d: outline(list, list.map(function (r) { return y(r[3]); }), base) });
		make(chart, "text", { x: LEFT - 6, y: top + 8, "text-anchor": "end" }, about(short_number(most)) + "/s");
		make(chart, "text", { x: LEFT - 6, y: bottom, "text-anchor": "end" }, "0");
		[["allocating", "allocations per second"], ["temporary", "of these temporary"]].forEach(function (r) {
			make(chart, "rect", { "class": r[0], x: x, y: top - 14, width: 9, height: 9 });
			x += 14 + make(chart, "text", { x: x + 14, y: top - 6 }, r[1]).getComputedTextLength() + 16;
		});
	}

	function draw_marks() {
		var free = [-1e9, -1e9], x, row, label;

		d.marks.forEach(function (m) {
			if (inside(m[0]) !== m[0])
				return;
			x = x_of(m[0]);
			make(chart, "line", { "class": "mark", x1: x, x2: x, y1: TOP, y2: TOP + HEIGHT });
			row = x > free[0] ? 0 : x > free[1] ? 1 : -1;
			if (row < 0)
				return;
			label = make(chart, "text", { "class": "mark", x: x + 3, y: 12 + row * 13 }, m[1]);
			free[row] = x + label.getComputedTextLength() + 10;
		});
		if (inside(d.peak_ms) !== d.peak_ms)
			return;
		x = x_of(d.peak_ms);
		make(chart, "circle", { "class": "peak", cx: x, cy: y_of(d.peak), r: 4 });
		make(chart, "text", { "class": "peak", x: x > width / 2 ? x - 5 : x + 5, y: y_of(d.peak) - 6, "text-anchor": x > width / 2 ? "end" : "start" },
		     "peak " + about(short_bytes(d.peak)) + " at " + seconds(d.peak_ms));
	}

	function draw_choice(a, b) {
		chart.querySelectorAll(".pick, .range").forEach(function (e) { e.remove(); });
		if (a !== null)
			make(chart, "rect", { "class": "range", x: x_of(inside(Math.min(a, b))), width: Math.abs(x_of(inside(b)) - x_of(inside(a))), y: TOP, height: HEIGHT });
		[a, b].forEach(function (ms) {
			if (ms !== null && inside(ms) === ms)
				make(chart, "line", { "class": "pick", x1: x_of(ms), x2: x_of(ms), y1: TOP, y2: TOP + HEIGHT });
		});
	}

	/* Of what was allocated since the start there is no moment. */
	function draw_chosen() {
		var is_moment = cost === "live" || cost === "difference";

		draw_choice(cost === "difference" ? keys[from].ms : null, is_moment ? keys[to].ms : null);
	}

	function height() { return TOP + HEIGHT + BOTTOM + (has_rates() ? RATES + 8 : 0); }

	function draw_chart() {
		width = chart.parentNode.clientWidth;
		chart.textContent = "";
		chart.setAttribute("viewBox", "0 0 " + width + " " + height());
		chart.setAttribute("height", height());
		draw_axes();
		draw_curve();
		if (has_rates())
			draw_rates();
		draw_marks();
		draw_chosen();
	}

	function draw_legend(parent) {
		series.forEach(function (s, n) {
			var item = make(parent, "span", { title: s.name + "\nat most " + digits(s.most) + " bytes" });

			make(item, "span", { "class": "key" }).style.background = PALETTE[n];
			item.appendChild(document.createTextNode(short(s.name)));
		});
		if (series.length)
			make(make(parent, "span", {}), "span", { "class": "key rest" }).parentNode.appendChild(document.createTextNode("others"));
	}

	/* The rates where the pointer is, as they are drawn. */
	function rate_text(ms) {
		var r = has_rates() ? rates().filter(function (r) { return r[0] <= ms; }).pop() : null;

		return r ? ", " + about(digits(Math.round(r[2]))) + " allocations/s" + (r[2] >= 1 ? ", " + Math.round(100 * r[3] / r[2]) + " % temporary" : "") : "";
	}

	/* The curve's values at MS. */
	function values_at(ms) {
		var bytes = 0, k = -1, text;

		for (var i = 0; i < d.curve.length && d.curve[i] <= ms; i += 2)
			bytes = d.curve[i + 1];
		text = seconds(Math.round(ms)) + ": " + about(digits(bytes)) + " bytes" + rate_text(ms);
		while (k + 1 < keys.length && keys[k + 1].ms <= ms)
			k++;
		if (ms < loaded || !d.events)
			series.map(function (s) { return [Math.round(held_at(s, Math.max(k, 0), bytes)), s.name]; }).filter(function (v) { return v[0] > 0; }).sort(function (a, b) { return b[0] - a[0]; })
				.forEach(function (v) { text += "\n" + short_bytes(v[0]) + "  " + short(v[1]); });
		return text;
	}

	/* FACTOR < 1: closer, around MS. */
	function zoom_time(ms, factor) {
		var a = ms - (ms - first_ms()) * factor, b = ms + (last_ms() - ms) * factor;

		if (b - a < 10)
			return;
		seen = a <= d.began_ms && b >= last ? null : [Math.max(a, d.began_ms), Math.min(b, last)];
		draw_chart();
	}

	function move_time(part) {
		var by = (last_ms() - first_ms()) * part;

		if (!seen)
			return;
		by = Math.max(d.began_ms - seen[0], Math.min(last - seen[1], by));
		seen = [seen[0] + by, seen[1] + by];
		draw_chart();
	}

	/* A drag chooses a range; less than five pixels of it are a click. */
	function listen() {
		var down = null;

		function at(e) { return (e.clientX - chart.getBoundingClientRect().left) * width / chart.getBoundingClientRect().width; }

		chart.addEventListener("pointerdown", function (e) {
			down = at(e);
			chart.setPointerCapture(e.pointerId);
		});
		chart.addEventListener("pointermove", function (e) {
			if (down !== null && Math.abs(at(e) - down) >= 5)
				draw_choice(ms_of(down), ms_of(at(e)));
			chart.querySelectorAll(".hair").forEach(function (h) { h.remove(); });
			make(chart, "line", { "class": "hair", x1: x_of(ms_of(at(e))), x2: x_of(ms_of(at(e))), y1: TOP, y2: TOP + HEIGHT });
			tip(e, values_at(ms_of(at(e))));
		});
		chart.addEventListener("pointerleave", function (e) {
			chart.querySelectorAll(".hair").forEach(function (h) { h.remove(); });
			tip(e, "");
		});
		chart.addEventListener("pointerup", function (e) {
			var a = ms_of(down === null ? at(e) : down), b = ms_of(at(e)), is_range = down !== null && Math.abs(at(e) - down) >= 5;

			down = null;
			choose(is_range ? key_at(Math.min(a, b)) : null, key_at(Math.max(a, b)));
		});
		chart.addEventListener("wheel", function (e) {
			e.preventDefault();
			if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY))
				move_time((e.deltaX || e.deltaY) > 0 ? 0.1 : -0.1);
			else
				zoom_time(ms_of(at(e)), e.deltaY > 0 ? 1.25 : 0.8);
		}, { passive: false });
		chart.addEventListener("keydown", key_in_chart);
	}

	function key_in_chart(e) {
		var next = e.key === "ArrowLeft" ? to - 1 : e.key === "ArrowRight" ? to + 1 : e.key === "Home" ? 0 : e.key === "End" ? keys.length - 1 : e.key === "p" ? peak_key() : null;

		if (e.ctrlKey || e.metaKey || e.altKey)
			return;
		if (next !== null) {
			next = Math.min(keys.length - 1, Math.max(0, next));
			choose(e.shiftKey ? from === null ? to : from : null, next);
		} else if (e.key === "+" || e.key === "-") {
			zoom_time(inside(keys[to].ms), e.key === "+" ? 0.8 : 1.25);
		} else if (e.key === "0") {
			seen = null;
			draw_chart();
		} else {
			return;
		}
		e.preventDefault();
	}

	/* ---- trees ---- */

	/* FRAME -1: the whole. Where in its path each column of COLS is at: AT. */
	function tree_node(frame, parent, step, cols, at) {
		var n = { frame: frame, parent: parent, step: step, cols: cols, at: at, size: 0, wide: 0, count: 0, kids: null };

		for (var i = 0; i < cols.length; i++) {
			n.size += sums.value[cols[i]];
			n.wide += Math.abs(sums.value[cols[i]]);
			n.count += sums.blocks[cols[i]];
		}
		return n;
	}

	/* The only child of N, if there all columns go on with one frame: most of the upper nodes are such. */
	function only_child(n) {
		var at = [], frame, kid;

		for (var i = 0; i < n.cols.length; i++) {
			var p = n.at[i] + n.step, next = paths[n.cols[i]][p];	/* undefined where the path ends */

			if (next === undefined || i && next !== frame)
				return null;
			frame = next;
			at.push(p);
		}
		kid = tree_node(frame, n, n.step, [], at);
		kid.cols = n.cols;
		kid.size = n.size;
		kid.wide = n.wide;
		kid.count = n.count;
		return kid;
	}

	function children(n) {
		var by = new Map(), list = [], only;

		if (n.kids)
			return n.kids;
		only = n.cols.length ? only_child(n) : null;
		if (only)
			return n.kids = [only];
		for (var i = 0; i < n.cols.length; i++) {
			var c = n.cols[i], p = n.at[i] + n.step, group;

			if (p < 0 || p >= paths[c].length)
				continue;
			group = by.get(paths[c][p]);
			if (!group)
				by.set(paths[c][p], group = [[], []]);
			group[0].push(c);
			group[1].push(p);
		}
		by.forEach(function (group, frame) { list.push(tree_node(frame, n, n.step, group[0], group[1])); });
		list.sort(function (x, y) { return !x.frame - !y.frame || y.wide - x.wide || x.frame - y.frame; });
		return n.kids = list;
	}

	/* The columns that have something of what is shown; with FRAME, those that go through it: where they do first, or (INNERMOST) last. */
	function root_of(step, frame, innermost) {
		var cols = [], at = [], p;

		for (var c = 0; c < columns.length; c++) {
			if (!sums.value[c] || columns[c][0] < 0)
				continue;
			p = frame === undefined ? step > 0 ? -1 : paths[c].length : innermost ? paths[c].lastIndexOf(frame) : paths[c].indexOf(frame);
			if (frame !== undefined && p < 0)
				continue;
			cols.push(c);
			at.push(p);
		}
		return tree_node(frame === undefined ? -1 : frame, null, step, cols, at);
	}

	function make_roots() {
		if (shape === "both" && selected !== null)
			roots = [root_of(-1, selected, false), root_of(1, selected, true)];
		else
			roots = [root_of(shape === "up" ? -1 : 1)];
	}

	function name_of(frame) { return frame < 0 ? "all" : d.frames[frame][0]; }

	function title_of(n) {
		var what = n.frame > 0 ? d.frames[n.frame][1] : n.frame === 0 ? "stacks that are too small to be told apart here" : "", module = n.frame > 0 ? d.modules[d.frames[n.frame][2]] : "";

		return name_of(n.frame) + "\n" + (what ? what + "\n" : "") + (module && module !== what ? "in " + module + "\n" : "") + told(n.size, n.count) +
			(cost !== "difference" ? ", " + share(n.size, sums.size) : "");
	}

	/* ---- the flame graph ---- */

	/* The node that ZOOM, a list of frames from the root on, leads to; what is not there any more is cut off. */
	function zoomed_node() {
		var n = roots[0];

		if (roots.length > 1)
			return n;
		for (var i = 0; i < zoom.length; i++) {
			var next = children(n).filter(function (k) { return k.frame === zoom[i]; })[0];

			if (!next || !next.wide) {
				zoom = zoom.slice(0, i);
				break;
			}
			n = next;
		}
		return n;
	}

	/* What is drawn of the tree below N: [node, x, width, row] each, rows counted from N's, which is ROW. */
	function lay_tree(n, w, row) {
		var todo = [[n, 0, w, row]], out = [];

		while (todo.length) {
			var t = todo.pop(), x = t[1];

			out.push(t);
			if (t[3] - row < DEEPEST && t[0].wide)
				children(t[0]).forEach(function (k) {
					var kw = t[2] * k.wide / t[0].wide;

					if (kw >= LEAST)
						todo.push([k, x, kw, t[3] + 1]);
					x += kw;
				});
		}
		return out;
	}

	function lay_flame(w) {
		var n = zoomed_node(), above = [], out = [], up;

		if (roots.length > 1) {	/* callers over the function, callees under it */
			up = lay_tree(roots[0], w, 0);
			up.forEach(function (r) { r[3] = -r[3]; });
			return up.concat(lay_tree(roots[1], w, 0).slice(1));
		}
		for (var p = n.parent; p; p = p.parent)
			above.unshift(p);
		above.forEach(function (a, i) { out.push([a, 0, w, i]); });
		out = out.concat(lay_tree(n, w, above.length));
		if (flipped)
			out.forEach(function (r) { r[3] = -r[3]; });
		return out;
	}

	function draw_flame() {
		var canvas = by_id("flame"), w = canvas.parentNode.clientWidth - 2, scale = devicePixelRatio || 1, low = 0, high = 0, empty = !roots.length || !roots[0].wide, g, zoomed;

		by_id("empty").hidden = !empty;
		by_id("empty").textContent = cost === "difference" ? "Nothing has changed." : shape === "both" && selected === null ? "Click a function first." : "Nothing was live.";
		canvas.hidden = empty;
		rects = empty ? [] : lay_flame(w);
		rects.forEach(function (r) {
			low = Math.min(low, r[3]);
			high = Math.max(high, r[3]);
		});
		rects.forEach(function (r) { r[3] -= low; });
		canvas.style.height = (high - low + 1) * ROW + "px";
		canvas.width = w * scale;
		canvas.height = (high - low + 1) * ROW * scale;
		if (empty)
			return;
		g = canvas.getContext("2d");
		g.scale(scale, scale);
		g.font = "12px ui-monospace, monospace";
		g.textBaseline = "middle";
		zoomed = roots.length > 1 ? null : zoomed_node();
		paint(g, zoomed, g.measureText("mmmmmmmmmm").width / 10);
		if (cursor && !rects.some(function (r) { return r[0] === cursor; }))
			cursor = null;
		canvas.setAttribute("aria-label", "flame graph; " + (cursor ? title_of(cursor).replace(/\n/g, ", ") : name_of(roots[0].frame)));
	}

	function paint(g, zoomed, character) {
		rects.forEach(function (r) {
			var n = r[0], x = r[1], w = r[2], y = r[3] * ROW, text = short(name_of(n.frame)) + (cost === "difference" ? "  "+ signed(n.size) : ""), most = Math.floor((w - 7) / character);
			var is_above = zoomed && n !== zoomed && is_over(n, zoomed);

			g.globalAlpha = pattern && !(n.frame >= 0 && is_found(name_of(n.frame))) ? 0.3 : is_above ? 0.55 : 1;
			g.fillStyle = frame_colour(n);
			g.fillRect(x, y, w > 2 ? w - 1 : Math.max(w - 0.2, 0.4), ROW - 1);
			if (most >= 3) {
				g.fillStyle = dark.matches ? "#0d0f11" : "#1c2024";
				g.fillText(text.length <= most ? text : text.slice(0, most - 1) + "\u2026", x + 4, y + ROW / 2);
			}
			if (n === cursor) {
				g.globalAlpha = 1;
				g.strokeStyle = dark.matches ? "#fff" : "#000";
				g.lineWidth = 2;
				g.strokeRect(x + 1, y + 1, Math.max(w - 3, 1), ROW - 3);
			}
		});
		g.globalAlpha = 1;
	}

	function is_over(n, below) {
		for (; below; below = below.parent)
			if (below === n)
				return true;
		return false;
	}

	function rect_at(e) {
		var box = by_id("flame").getBoundingClientRect(), x = e.clientX - box.left, row = Math.floor((e.clientY - box.top) / ROW);

		return rects.filter(function (r) { return r[3] === row && x >= r[1] && x < r[1] + Math.max(r[2], 1); })[0];
	}

	function zoom_to(n) {
		zoom = [];
		for (; n && n.parent; n = n.parent)
			zoom.unshift(n.frame);
	}

	/* A click: closer to it, and who calls it and what it calls. */
	function open_node(n) {
		if (n.frame > 0)
			select(n.frame);
		if (shape !== "both")
			zoom_to(n);
		make_if_both();
		draw_flame();
	}

	function make_if_both() {
		if (shape === "both")
			make_roots();
	}

	function zoom_out() {
		zoom = [];
		draw_flame();
	}

	/* Over the rows and along them, by the keys. */
	function key_in_flame(e) {
		var now = rects.filter(function (r) { return r[0] === cursor; })[0], mid = now ? now[1] + now[2] / 2 : 0, row, next;

		if (e.key === "Enter" && cursor) {
			open_node(cursor);
		} else if (e.key === "Escape" || e.key === "Backspace") {
			zoom_out();
		} else if (/^Arrow/.test(e.key)) {
			row = !now ? 0 : now[3] + (e.key === "ArrowDown" ? 1 : e.key === "ArrowUp" ? -1 : 0);
			next = rects.filter(function (r) { return r[3] === row; }).sort(function (a, b) { return a[1] - b[1]; });
			if (now && row === now[3])
				next = next.slice(Math.max(0, next.indexOf(now) + (e.key === "ArrowRight" ? 1 : -1)))[0];
			else
				next = next.sort(function (a, b) { return Math.abs(a[1] + a[2] / 2 - mid) - Math.abs(b[1] + b[2] / 2 - mid); })[0];
			if (next)
				cursor = next[0];
			draw_flame();
			by_id("detail").textContent = cursor ? title_of(cursor).replace(/\n/g, " \u00b7 ") : "";
		} else {
			return;
		}
		e.preventDefault();
	}

	/* The colours of the largest modules. */
	function draw_modules() {
		var by = {}, legend = by_id("modules");

		legend.textContent = "";
		if (cost === "difference")	/* there, colours say more or less */
			return;
		modules_of = modules_of || paths.map(function (path) {
			return Array.from(new Set(path.filter(function (frame) { return frame; }).map(function (frame) { return d.frames[frame][2]; })));
		});
		modules_of.forEach(function (list, c) {
			for (var i = 0; sums.value[c] && i < list.length; i++)
				by[list[i]] = (by[list[i]] || 0) + Math.abs(sums.value[c]);
		});
		Object.keys(by).sort(function (a, b) { return by[b] - by[a]; }).slice(0, 10).forEach(function (m) {
			var item = make(legend, "span", { title: d.modules[m] || "in no module" });

			make(item, "span", { "class": "key" }).style.background = module_colour(+m, "");
			item.appendChild(document.createTextNode(last_part(d.modules[m]) || "no module"));
		});
	}

	/* The sum of all stacks that have a function which matches. */
	function draw_matched() {
		var value = 0, blocks = 0, hit;

		by_id("matched").textContent = "";
		if (!pattern)
			return;
		hit = d.frames.map(function (f) { return is_found(f[0]); });
		paths.forEach(function (path, c) {
			if (sums.value[c] && path.some(function (frame) { return hit[frame]; })) {
				value += sums.value[c];
				blocks += sums.blocks[c];
			}
		});
		by_id("matched").textContent = "matched: " + told(value, blocks) + (cost !== "difference" ? ", " + share(value, sums.size) : "");
		by_id("matched").setAttribute("data-bytes", value);
	}

	/* ---- callers and callees ---- */

	/* The function that matches and has most. */
	function largest_match() {
		var best = null, most = 0, size = new Float64Array(d.frames.length), last_column = new Int32Array(d.frames.length).fill(-1);

		paths.forEach(function (path, c) {
			for (var i = 0; i < path.length; i++)
				if (last_column[path[i]] !== c) {
					last_column[path[i]] = c;
					size[path[i]] += Math.abs(sums.value[c]);
				}
		});
		d.frames.forEach(function (f, frame) {
			if (frame && size[frame] > most && pattern && is_found(f[0])) {
				best = frame;
				most = size[frame];
			}
		});
		return best;
	}

	function select(frame) {
		selected = frame;
		draw_relatives();
	}

	function relatives_table(parent, title, list, self) {
		var box = make(parent, "div", {}), body = table_with(box, [[is_bytes() ? "bytes" : "allocations", "n"], ["share", "n"], [title, ""]], {});

		function row(value, name, frame) {
			var tr = make(body, "tr", {}), cell;

			make(tr, "td", { "class": "n" }, signed(value));
			make(tr, "td", { "class": "n" }, cost === "difference" ? "" : share(value, sums.size));
			cell = make(tr, "td", { "class": "name" }, frame > 0 ? undefined : name);
			if (frame > 0)
				button(cell, short(name), function () { open_function(frame); }, short(name) === name ? { "class": "link" } : { "class": "link", title: name });
		}
		if (self)
			row(self, "(itself)", 0);
		list.slice(0, 20).forEach(function (n) { row(n.size, name_of(n.frame), n.frame); });
		if (list.length > 20)
			row(add_up(list.slice(20).map(function (n) { return n.size; })), "(" + (list.length - 20) + " more)", 0);
	}

	function draw_relatives() {
		var panel = by_id("relatives"), callers, callees, own;

		panel.textContent = "";
		panel.hidden = selected === null;
		if (selected === null)
			return;
		callers = root_of(-1, selected, false);
		callees = root_of(1, selected, true);
		own = callees.size - add_up(children(callees).map(function (n) { return n.size; }));
		make(panel, "h2", {}, name_of(selected) + ": " + told(callees.size, callees.count) + (cost === "difference" ? "" : ", " + share(callees.size, sums.size)));
		panel.firstChild.setAttribute("data-bytes", callees.size);
		make(panel, "div", { "class": "two" });
		relatives_table(panel.lastChild, "called by", children(callers), callers.size - add_up(children(callers).map(function (n) { return n.size; })));
		relatives_table(panel.lastChild, "calls", children(callees), own);
	}

	function open_function(frame) {
		select(frame);
		make_if_both();
		if (shape === "both")
			draw_flame();
	}

	/* ---- the sites ---- */

	var HEADS = [["size", "bytes", "n"], ["share", "share", "n"], ["count", "blocks", "n"], ["allocated", "allocated", "n"], ["allocations", "allocations", "n"], ["temporary", "temporary", "n"],
		     ["name", "function", ""], ["where", "where", ""]];

	function heads() {
		return HEADS.filter(function (h) { return (d.totals || !/alloc|temp/.test(h[0])) && (cost !== "difference" || h[0] !== "share") && (is_bytes() || h[0] !== "count"); });
	}

	function site_rows() {
		var by = {}, rows = [], i, s, n = columns.length - 1;

		for (i = 0; i <= n; i++) {
			if (columns[i][1] < 0)
				continue;
			s = by[columns[i][1]] = by[columns[i][1]] || { site: sites[columns[i][1]], number: columns[i][1], size: 0, count: 0, allocated: 0, allocations: 0, temporary: 0 };
			s.size += sums.value[i];
			s.count += sums.blocks[i];
			if (d.totals && i < n) {
				s.allocated += d.totals[3 * i];
				s.allocations += d.totals[3 * i + 1];
				s.temporary += d.totals[3 * i + 2];
			}
		}
		for (i in by)
			if (by[i].size || by[i].count) {
				by[i].name = by[i].site[1];
				by[i].where = place(by[i].site, 2, 3);
				by[i].share = by[i].size;
				rows.push(by[i]);
			}
		rows = rows.filter(function (r) { return !filter || (r.name + " " + short(r.name) + " " + r.site[2] + " " + r.where + " " + (d.modules[r.site[4]] || "")).toLowerCase().indexOf(filter) >= 0; });
		return rows.sort(function (x, y) {
			var a = x[order], b = y[order];

			return !x.number - !y.number || (ascending ? 1 : -1) * (typeof a === "string" ? -a.localeCompare(b) : a - b);
		});
	}

	function sort_by(key) {
		ascending = order === key && !ascending;
		order = key;
		draw_sites();
	}

	/* Beneath a site's row: the largest stacks that allocate there. */
	function open_site(row, r) {
		var next = row.nextSibling, list = [], small = 0, cell, text;

		if (next && next.className === "stacks") {
			next.remove();
			return;
		}
		columns.forEach(function (c, i) {
			if (c[1] === r.number && c[0] >= 0 && sums.value[i])
				list.push(i);
			else if (c[1] === r.number)
				small += sums.value[i];
		});
		list.sort(function (a, b) { return Math.abs(sums.value[b]) - Math.abs(sums.value[a]); });
		next = document.createElement("tr");
		next.className = "stacks";
		row.parentNode.insertBefore(next, row.nextSibling);
		cell = make(next, "td", { colspan: heads().length });
		list.slice(0, 10).forEach(function (i) {
			make(cell, "div", { "class": "soft" }, told(sums.value[i], sums.blocks[i]) + (cost === "difference" ? "" : ", " + share(sums.value[i], sums.size)));
			text = paths[i].map(function (frame) { return short(d.frames[frame][0]) + (frame ? "  "+ last_part(d.frames[frame][1]) : ""); }).reverse().join("\n");
			make(cell, "pre", {}, text);
		});
		small += add_up(list.slice(10).map(function (i) { return sums.value[i]; }));
		if (small)
			make(cell, "div", { "class": "soft" }, "smaller stacks: " + signed(small));
	}

	function draw_sites() {
		var table = by_id("sites"), rows = site_rows(), more = by_id("more"), head, shown = heads();

		table.textContent = "";
		head = make(make(table, "thead", {}), "tr", {});
		shown.forEach(function (h) {
			var th = make(head, "th", { "class": h[2] }), text = h[0] === "size" && !is_bytes() ? "allocations" : h[1];

			if (h[0] === order)
				th.setAttribute("aria-sort", ascending ? "ascending" : "descending");
			button(th, text + (h[0] === order ? ascending ? " \u25b4" : " \u25be" : ""), function () { sort_by(h[0]); }, { "class": "link" });
		});
		table = make(table, "tbody", {});
		rows.slice(0, shown_rows).forEach(function (r) {
			var tr = make(table, "tr", { "data-bytes": r.size, "data-count": r.count });

			shown.forEach(function (h) {
				if (h[0] === "name")
					name_cell(tr, r.name);
				else if (h[0] === "where")
					make(tr, "td", { "class": "name", title: r.site[2] }, r.where);
				else
					make(tr, "td", { "class": "n" }, h[0] === "share" ? share(r.size, sums.size) : h[0] === "size" || h[0] === "count" ? signed(r[h[0]]) : about(digits(r[h[0]])));
			});
			tr.addEventListener("click", function () { open_site(tr, r); });
		});
		more.hidden = rows.length <= shown_rows;
		more.textContent = "more of " + rows.length + " sites";
	}

	/* The row that the keys are at is marked, Enter opens it. */
	function key_in_sites(e) {
		var rows = Array.prototype.slice.call(by_id("sites").querySelectorAll("tbody tr[data-bytes]")), at = rows.findIndex(function (r) { return r.classList.contains("at"); }), next;

		if (e.target.tagName === "BUTTON")
			return;
		if (e.key === "Enter" && at >= 0) {
			rows[at].click();
		} else if (e.key === "ArrowDown" || e.key === "ArrowUp") {
			next = rows[Math.max(0, Math.min(rows.length - 1, at + (e.key === "ArrowDown" ? 1 : -1)))];
			if (at >= 0)
				rows[at].removeAttribute("class");
			if (next) {
				next.classList.add("at");
				next.scrollIntoView({ block: "nearest" });
			}
		} else {
			return;
		}
		e.preventDefault();
	}

	/* ---- sizes and threads ---- */

	/* ROWS: [name, bytes, blocks, title]. */
	function draw_bars(parent, id, title, rows) {
		var box = make(parent, "div", {}), most = rows.reduce(function (m, r) { return Math.max(m, r[1]); }, 1), all = add_up(rows.map(function (r) { return r[1]; })), body;

		make(box, "h2", {}, title);
		body = table_with(box, [["", ""], ["bytes", "n"], ["share", "n"], ["blocks", "n"], ["", "bar-cell"]], { id: id });
		rows.forEach(function (r) {
			var tr = make(body, "tr", { "data-of": r[1], "data-in": r[2] });

			make(tr, "td", { "class": "name" }, r[0]);
			make(tr, "td", { "class": "n" }, about(digits(r[1])));
			make(tr, "td", { "class": "n" }, share(r[1], all));
			make(tr, "td", { "class": "n" }, about(digits(r[2])));
			make(make(tr, "td", {}), "div", { "class": "meter" }).style.width = 100 * r[1] / most + "%";
		});
	}

	function short_size(n) { return n < 1024 ? n + " B" : n < 1048576 ? n / 1024 + " KiB" : n < 1073741824 ? n / 1048576 + " MiB" : n / 1073741824 + " GiB"; }

	function draw_blocks(body) {
		var two = make(body, "section", { "class": "two" });

		if (d.sizes)
			draw_bars(two, "sizes", "Live blocks by size", d.sizes.map(function (s) {
				return [s[0] < 2 ? s[0] ? "1 B" : "0 B" : "\u2265 " + short_size(s[0]), s[1], s[2]];
			}));
		if (d.threads)
			draw_bars(two, "threads", "Live blocks by the thread that allocated them", d.threads.map(function (t) { return [(t[1] ? t[1] + " " : "") + (t[0] ? "(" + t[0] + ")" : "(others)"), t[2], t[3]]; }));
	}

	/* ---- lifetimes ---- */

	var LIFE = [["blocks", "blocks", "n", "all that were there, live or not"], ["life", "average lifetime", "n", "blocks that are live still have lived to the end of the record"],
		    ["part", "of the record", "n", "the average lifetime, of the time that was recorded"], ["peak", "at the peak (t-gmax)", "n", "bytes and blocks that were live then"],
		    ["end", "at the end (t-end)", "n", "bytes and blocks that are live still"], ["young", "temporary", "n", "freed before the thread's next allocation"], ["name", "function", ""], ["where", "where", ""]];

	/* A log counts in ms. */
	function lifetime(ms) { return ms < 1 ? "< 1 ms" : ms < 1000 ? ms.toFixed(1) + " ms" : seconds(Math.round(ms)); }

	function held(bytes, blocks) { return blocks ? digits(bytes) + " in " + digits(blocks) : "0"; }

	function life_rows() {
		var by = {}, list = [], peak = key(peak_key()), end, i, r, site;

		function add(name, bytes, count) {
			for (i = 0; i < d.lived.length / 2; i++) {
				site = columns[i][1];
				if (site < 0)
					continue;
				r = by[site] = by[site] || { number: site, name: sites[site][1], file: sites[site][2], where: place(sites[site], 2, 3), ms: 0, blocks: 0, allocations: 0, temporary: 0, peak: 0, peaks: 0, end: 0, ends: 0 };
				r[name] += bytes[i];
				r[name + "s"] += count[i];
			}
		}
		add("peak", peak.bytes, peak.count);
		end = key(keys.length - 1);
		add("end", end.bytes, end.count);
		for (i = 0; i < d.lived.length / 2; i++)
			if (columns[i][1] >= 0) {
				r = by[columns[i][1]];
				r.ms += d.lived[2 * i];
				r.blocks += d.lived[2 * i + 1];
				if (d.totals) {
					r.allocations += d.totals[3 * i + 1];
					r.temporary += d.totals[3 * i + 2];
				}
			}
		for (i in by)
			if (by[i].blocks) {
				by[i].life = by[i].part = by[i].ms / by[i].blocks;
				by[i].young = by[i].allocations ? by[i].temporary / by[i].allocations : 0;
				list.push(by[i]);
			}
		return list;
	}

	function draw_lifetimes(body) {
		var box = make(body, "section", {}), rows = life_rows(), by = "blocks", up = false, most = 25, table, more;

		function draw() {
			var head, tbody;

			rows.sort(function (x, y) { return !x.number - !y.number || (up ? 1 : -1) * (typeof x[by] === "string" ? -x[by].localeCompare(y[by]) : x[by] - y[by]); });
			table.textContent = "";
			head = make(make(table, "thead", {}), "tr", {});
			LIFE.forEach(function (h) {
				var th = make(head, "th", { "class": h[2], title: h[3] || "" });

				if (h[0] === by)
					th.setAttribute("aria-sort", up ? "ascending" : "descending");
				button(th, h[1] + (h[0] === by ? up ? " \u25b4" : " \u25be" : ""), function () {
					up = by === h[0] && !up;
					by = h[0];
					draw();
				}, { "class": "link" });
			});
			tbody = make(table, "tbody", {});
			rows.slice(0, most).forEach(function (r) {
				var tr = make(tbody, "tr", { "data-blocks": r.blocks, "data-life": r.life });

				[digits(r.blocks), lifetime(r.life), share(r.life, d.lived_of), held(r.peak, r.peaks), held(r.end, r.ends), share(r.young, 1)].forEach(function (text) { make(tr, "td", { "class": "n" }, about(text)); });
				name_cell(tr, r.name);
				make(tr, "td", { "class": "name", title: r.file }, r.where);
			});
			more.hidden = rows.length <= most;
			more.textContent = "more of " + rows.length + " sites";
		}
		make(box, "h2", {}, "How long blocks live");
		table = make(make(box, "div", { "class": "wide" }), "table", { id: "lifetimes" });
		more = button(make(box, "p", {}), "", function () {
			most += 100;
			draw();
		}, {});
		draw();
	}

	/* ---- resident memory ---- */

	function draw_kept(body, m) {
		var table = make(body, "table", { id: "kept" }), head = make(make(table, "thead", {}), "tr", {}), rows = m.kept.slice(0, 25), rest = m.others.slice();

		m.kept.slice(25).forEach(function (r) {
			rest[0] += r[0];
			rest[1] += r[1];
		});
		if (rest[0])
			rows.push([rest[0], rest[1], "(others)", "", 0]);
		if (m.several[0])
			rows.push([m.several[0], m.several[1], "(by blocks of several sites)", "", 0]);
		[["kept", "n"], ["live in it", "n"], ["function", ""], ["where", ""]].forEach(function (h) { make(head, "th", { "class": h[1] }, h[0]); });
		table = make(table, "tbody", {});
		rows.forEach(function (r) {
			var tr = make(table, "tr", { "data-kept": r[0], "data-live": r[1] });

			make(tr, "td", { "class": "n" }, digits(r[0]));
			make(tr, "td", { "class": "n" }, digits(r[1]));
			name_cell(tr, r[2]);
			make(tr, "td", { "class": "place", title: r[3] }, place(r, 3, 4));
		});
	}

	/* A bar as wide as RSS, and its parts below; then the sites that keep pages of which little is live. */
	function draw_residency(body) {
		var m = d.residency, bar, table, head;

		make(body, "h2", {}, "Resident memory at the end of the record: " + digits(m.rss) + " bytes" + (m.swapped ? ", and " + digits(m.swapped) + " swapped out" : ""));
		bar = make(body, "div", { id: "resident" });
		m.rows.forEach(function (r, i) {
			var part = make(bar, "div", { "class": "part" + i, title: r[0] + "\n" + digits(r[1]) + " bytes, " + share(r[1], m.rss) + "\n" + r[2] });

			part.style.width = 100 * r[1] / m.rss + "%";
		});
		table = make(body, "table", { id: "residency" });
		head = make(make(table, "thead", {}), "tr", {});
		[["", ""], ["bytes", "n"], ["share", "n"], ["", ""]].forEach(function (h) { make(head, "th", { "class": h[1] }, h[0]); });
		table = make(table, "tbody", {});
		m.rows.forEach(function (r, i) {
			var tr = make(table, "tr", { "data-row": r[0], "data-resident": r[1] }), name = make(tr, "td", {});

			make(name, "span", { "class": "key part" + i });
			name.appendChild(document.createTextNode(r[0]));
			make(tr, "td", { "class": "n" }, digits(r[1]));
			make(tr, "td", { "class": "n" }, share(r[1], m.rss));
			make(tr, "td", {}, r[2] + (i ? "" : ": " + digits(m.live_bytes) + " bytes"));
		});
		if (!m.all[0])
			return;
		make(body, "h2", {}, "Pages of which at most half is live: " + digits(m.all[0]) + " bytes, kept resident by " + digits(m.all[1]) + " live bytes");
		make(body, "p", { "class": "soft" }, "What a site keeps would be given back if its blocks were gone.");
		draw_kept(body, m);
	}

	/* ---- leaks ---- */

	/* The functions of the stack that ends in NODE, innermost first, a line each. */
	function stack_of(node) {
		var lines = [];

		for (; node; node = nodes[node][0])
			lines.push([short(d.frames[nodes[node][1]][0]), d.frames[nodes[node][1]][1]].filter(function (t) { return t; }).join("  "));
		return lines.join("\n");
	}

	/*
	 * What a line `leak:PATTERN` matches: the pattern anywhere in a name, `*` any characters, `^` and `$` the name's ends. NULL: it is empty or a comment; undefined: it is not
	 * accepted.
	 */
	function suppression(line) {
		var text = line.trim(), begin, end;

		if (!text || text[0] === "#")
			return null;
		if (!/^leak:./.test(text))
			return undefined;
		text = text.slice(5);
		end = /\$$/.test(text) ? "$" : "";
		begin = text[0] === "^" ? "^" : "";
		text = text.slice(begin.length, text.length - end.length);
		return text ? new RegExp(begin + text.replace(/[.+?^${}()|[\]\\]/g, "\\$&").replace(/\*/g, ".*") + end) : undefined;
	}

	function is_suppressed(r, patterns) {
		var names = [r[5]];

		path_of(r[8]).forEach(function (f) { names.push(d.frames[f][0], d.frames[f][1], d.modules[d.frames[f][2]] || ""); });
		return patterns.some(function (p) { return names.some(function (n) { return p.test(n); }); });
	}

	/* R's row; SUPPRESS is called with its function. */
	function draw_leak(body, r, suppress) {
		var tr = make(body, "tr", { "class": "leak", "data-kind": r[0], "data-bytes": r[1], "data-count": r[2] }), stack;

		make(tr, "td", {}, d.leaks.sums[r[0]][0]);
		make(tr, "td", { "class": "n" }, digits(r[1]));
		make(tr, "td", { "class": "n" }, digits(r[2]));
		make(tr, "td", { "class": "n" }, r[4] ? digits(r[3]) + " in " + digits(r[4]) : "");
		name_cell(tr, r[5]);
		make(tr, "td", { "class": "place", title: r[6] }, place(r, 6, 7));
		button(make(tr, "td", {}), "suppress", function (e) {
			e.stopPropagation();
			suppress(r[5]);
		}, { "class": "link", title: "leave out what has this function in its stack" });
		stack = make(body, "tr", {});
		stack.hidden = true;
		make(stack, "td", {});
		make(make(stack, "td", { colspan: 6, "class": "name" }), "pre", {}, stack_of(r[8]));
		tr.addEventListener("click", function () { stack.hidden = !stack.hidden; });
	}

	/*
	 * What is lost, without what PATTERNS match: its sums, and what remains. With a block goes what is lost with it. That has a record of its own, too, which may match or not: the
	 * larger one counts.
	 */
	function lost_without(patterns) {
		var sums = d.leaks.sums.map(function (s) { return s.slice(); }), gone = d.leaks.records.filter(function (r) { return is_suppressed(r, patterns); });

		function total(list, at) { return add_up(list.map(function (r) { return r[at]; })); }
		function of_kind(kind) { return gone.filter(function (r) { return r[0] === kind; }); }
		[1, 2].forEach(function (at) {
			[0, 1, 2].forEach(function (kind) {
				var n = total(of_kind(kind), at);

				n = Math.min(sums[kind][at], kind === 1 ? Math.max(n, total(of_kind(0), at + 2)) : n);
				sums[kind][at] -= n;
				sums[4][at] += n;
			});
		});
		return { sums: sums, records: d.leaks.records.filter(function (r) { return gone.indexOf(r) < 0 && sums[r[0]][2] > 0; }) };
	}

	function draw_suppressions(body, fn) {
		var box = make(body, "details", { id: "suppressions" }), text, wrong;

		make(box, "summary", { "class": "soft" }, "suppressions");
		text = make(box, "textarea", { rows: 4, spellcheck: "false", placeholder: "leak:PATTERN", "aria-label": "suppressions" });
		make(box, "p", { "class": "soft" }, "Lines leak:PATTERN as in a file of --suppressions: PATTERN is in the name of a function, a source file or a module of the stack. " +
		     "They are kept nowhere: copy them into such a file.");
		wrong = make(box, "p", { "class": "wrong", role: "status" });
		text.addEventListener("input", function () {
			var all = text.value.split("\n").map(suppression), bad = all.indexOf(undefined);

			wrong.textContent = bad < 0 ? "" : "line " + (bad + 1) + " is not accepted: leak:PATTERN";
			fn(all.filter(Boolean));
		});
		return function (name) {
			box.open = true;
			text.value += (text.value && !/\n$/.test(text.value) ? "\n" : "") + "leak:^" + name + "$\n";
			text.dispatchEvent(new Event("input"));
		};
	}

	function draw_leaks(body) {
		var l = d.leaks, title = make(body, "h2", {}), head, sums, records, suppress;

		function fill(patterns) {
			var now = lost_without(patterns);

			title.textContent = "Leaks at the end of the record: " + digits(now.sums[0][1] + now.sums[1][1]) + " bytes in " + number_of(now.sums[0][2] + now.sums[1][2], "block");
			sums.textContent = records.textContent = "";
			now.sums.forEach(function (s) {
				var tr = make(sums, "tr", { "data-lost": s[0], "data-bytes": s[1], "data-count": s[2] });

				make(tr, "td", {}, s[0]);
				make(tr, "td", { "class": "n" }, digits(s[1]));
				make(tr, "td", { "class": "n" }, digits(s[2]));
			});
			now.records.forEach(function (r) { draw_leak(records, r, suppress); });
		}

		make(body, "p", { "class": "soft" }, "What nothing points to any more, and what only that points to. A click on a row shows its stack." + (l.remark ? " " + l.remark + "." : ""));
		sums = make(body, "table", { id: "lost" });
		head = make(make(sums, "thead", {}), "tr", {});
		[["", ""], ["bytes", "n"], ["blocks", "n"]].forEach(function (h) { make(head, "th", { "class": h[1] }, h[0]); });
		sums = make(sums, "tbody", {});
		if (l.records.length)
			suppress = draw_suppressions(body, fill);
		records = make(body, "table", { id: "leaks" });
		records.hidden = !l.records.length;
		head = make(make(records, "thead", {}), "tr", {});
		[["", ""], ["bytes", "n"], ["blocks", "n"], ["lost with them", "n"], ["function", ""], ["where", ""], ["", ""]].forEach(function (h) { make(head, "th", { "class": h[1] }, h[0]); });
		records = make(records, "tbody", {});
		if (l.others[2])
			make(body, "p", {}, digits(l.others[2]) + " more records: " + digits(l.others[0]) + " bytes in " + digits(l.others[1]) + " blocks");
		fill([]);
	}

	/* ---- what is shown ---- */

	function describe() {
		var what = by_id("what"), k = keys[to], end = keys[keys.length - 1], when = to === keys.length - 1 ? "at the end of the record, " : to === peak_key() ? "at the peak, " : "at ";

		what.textContent = cost === "live" ? "Live " + when + seconds(k.ms) + ": " + told(sums.size, sums.count) :
			cost === "difference" ? "From " + seconds(keys[from].ms) + " to " + seconds(k.ms) + ": " + told(sums.size, sums.count) :
			(cost === "allocated" ? "Allocated up to " : "Up to ") + seconds(end.ms) + ": " + told(sums.size, sums.count);
		what.setAttribute("data-bytes", sums.size);
		what.setAttribute("data-count", sums.count);
		document.querySelectorAll("#cost button").forEach(function (b) {
			var is = b.value === (cost === "live" && to === peak_key() && to !== keys.length - 1 ? "peak" : cost);

			b.setAttribute("aria-pressed", is);
		});
	}

	function show() {
		sums = amounts();
		cursor = null;
		make_roots();
		describe();
		draw_chosen();
		draw_flame();
		draw_modules();
		draw_matched();
		draw_relatives();
		draw_sites();
	}

	function link() {
		history.replaceState(null, "", cost === "live" ? "#at=" + keys[to].ms : cost === "difference" ? "#from=" + keys[from].ms + "&to=" + keys[to].ms : "#cost=" + cost);
	}

	function choose(a, b) {
		from = a === null ? null : Math.min(a, b);
		to = a === null ? b : Math.max(a, b);
		range = a === null ? range : [from, to];
		cost = a === null ? "live" : "difference";
		show();
		link();
	}

	function choose_cost(name) {
		if (name === "live" || name === "peak") {
			choose(null, name === "peak" ? peak_key() : to);
			return;
		}
		if (name === "difference") {
			if (range)
				choose(range[0], range[1]);
			else
				choose(0, to);
			return;
		}
		cost = name;
		show();
		link();
	}

	/* The key moment that a link's MS, in TEXT, means. */
	function key_of(text) {
		var ms = +text;

		for (var i = 0; i < keys.length; i++)
			if (keys[i].ms === ms)
				return i;
		return key_at(ms);
	}

	function follow_link() {
		var m;

		from = null;
		to = keys.length - 1;
		cost = "live";
		if (location.hash === "#at=peak") {
			to = peak_key();
		} else if ((m = /^#at=(\d+)$/.exec(location.hash))) {
			to = key_of(m[1]);
		} else if ((m = /^#from=(\d+)&to=(\d+)$/.exec(location.hash)) && +m[1] <= +m[2]) {
			from = key_of(m[1]);
			to = key_of(m[2]);
			cost = "difference";
		} else if ((m = /^#cost=(allocated|allocations|temporary)$/.exec(location.hash)) && d.totals) {
			cost = m[1];
		}
		show();
	}

	/* One of several: LIST has [value, text, title]. */
	function choice(parent, id, label, list, now, fn) {
		var group = make(parent, "span", { id: id, "class": "choice", role: "group", "aria-label": label });

		list.forEach(function (l) {
			button(group, l[1], function () {
				group.querySelectorAll("button").forEach(function (b) { b.setAttribute("aria-pressed", b.value === l[0]); });
				fn(l[0]);
			}, { value: l[0], title: l[2], "aria-pressed": l[0] === now });
		});
	}

	function lay_out_head(body) {
		var header = make(body, "header", {});

		make(header, "h1", {}, "Memory of " + (d.command || "a program"));
		make(header, "span", { "class": "soft" }, "process " + d.pid + ", " + seconds(d.began_ms) + " to " + seconds(d.now_ms) + " after " +
		     new Date(d.clock_ms).toLocaleString() + (d.estimated ? "; estimated from samples" : ""));
		make(header, "span", { "class": "soft" }, d.command_line[0]);
		if (d.before)
			make(body, "p", { id: "before" }, "What the heap had in use before recording began is not shown here: " + (d.before.unknown ||
			     digits(d.before.bytes) + " bytes in " + digits(d.before.blocks) + " blocks") + ".");
		if (d.others)
			make(body, "p", { id: "others" }, "One of " + digits(d.others + 1) + " processes that are recorded: each has a page of its own" +
			     (d.events ? ", at ?pid=PID." : ", by `process PID` before the export."));
		draw_cards(body);
	}

	function lay_out_chart(body) {
		var bar = make(body, "div", { "class": "legend", id: "series" });

		draw_legend(bar);
		make(bar, "span", { "class": "soft hint", title: "With the keys: \u2190 \u2192 moments, Shift for a range, + \u2212 0 zoom, p peak" },
		     "click for a moment, drag for growth over a range, wheel to zoom");
		chart = document.createElementNS(SVG, "svg");
		chart.id = "timeline";
		chart.setAttribute("tabindex", "0");
		chart.setAttribute("role", "img");
		chart.setAttribute("aria-label", "live memory over time");
		make(body, "div", {}).appendChild(chart);
	}

	function lay_out_flame(body) {
		var bar = make(body, "div", { "class": "bar" }), costs = [["live", "live", "what was live at the chosen moment, at first the end"], ["peak", "peak", "what was live at the peak"],
			["difference", "difference", "what has come between two moments"]], tools, box, flame;

		if (d.totals)
			costs.push(["allocated", "allocated", "bytes since the start, live or not"], ["allocations", "allocations", "how many since the start"],
				   ["temporary", "temporary", "allocations that were freed before the thread's next one"]);
		make(bar, "div", { id: "what" });
		choice(bar, "cost", "cost", costs, "live", choose_cost);
		tools = make(body, "div", { "class": "bar tools" });
		choice(tools, "shape", "shape", [["down", "top-down", "callers first"], ["up", "bottom-up", "what allocates first"], ["both", "callers and callees", "of the clicked function"]], shape, function (name) {
			shape = name;
			zoom = [];
			make_roots();
			draw_flame();
		});
		choice(tools, "flip", "direction", [["icicle", "icicle", "roots on top"], ["flame", "flame", "roots at the bottom"]], "icicle", function (name) {
			flipped = name === "flame";
			draw_flame();
		});
		button(tools, "zoom out", zoom_out, { title: "Esc" });
		box = make(tools, "input", { type: "search", id: "find", placeholder: "find functions  /", size: 22, "aria-label": "find functions" });
		box.addEventListener("input", function () {
			pattern = box.value ? new RegExp(box.value.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "i") : null;
			draw_flame();
			draw_matched();
		});
		box.addEventListener("keydown", function (e) {
			var frame = e.key === "Enter" ? largest_match() : null;

			if (frame !== null)
				open_function(frame);
		});
		make(tools, "span", { id: "matched", "aria-live": "polite" });
		flame = make(make(body, "div", { id: "stage" }), "canvas", { id: "flame", tabindex: 0, role: "img" });
		make(flame.parentNode, "p", { id: "empty", "class": "soft" });
		make(body, "div", { id: "detail", "class": "soft", "aria-live": "polite" });
		make(body, "div", { id: "modules", "class": "legend" });
		make(body, "section", { id: "relatives" });
		flame.addEventListener("click", function (e) {
			var r = rect_at(e);

			if (r)
				open_node(r[0]);
		});
		flame.addEventListener("pointermove", function (e) {
			var r = rect_at(e);

			tip(e, r ? title_of(r[0]) : "");
		});
		flame.addEventListener("pointerleave", function (e) { tip(e, ""); });
		flame.addEventListener("keydown", key_in_flame);
	}

	function lay_out_sites(body) {
		var bar = make(body, "div", { "class": "bar" }), box;

		make(bar, "h2", {}, "Sites");
		box = make(bar, "input", { type: "search", id: "filter", placeholder: "filter by function, file, module", size: 30, "aria-label": "filter sites" });
		box.addEventListener("input", function () {
			filter = box.value.toLowerCase();
			draw_sites();
		});
		make(bar, "span", { "class": "soft hint" }, "a click on a row opens its stacks");
		make(make(body, "div", { "class": "wide" }), "table", { id: "sites", tabindex: 0 }).addEventListener("keydown", key_in_sites);
		button(make(body, "p", {}), "", function () {
			shown_rows += 100;
			draw_sites();
		}, { id: "more" });
	}

	function lay_out() {
		var body = document.body;

		lay_out_head(body);
		lay_out_chart(body);
		lay_out_flame(body);
		lay_out_sites(body);
		if (d.sizes || d.threads)
			draw_blocks(body);
		if (d.lived)
			draw_lifetimes(body);
		if (d.leaks)
			draw_leaks(body);
		if (d.residency)
			draw_residency(body);
		make(body, "footer", { "class": "soft" }, "mtrun " + d.version + ". A frame is as wide as its part of the cost that is chosen above. The curve shows local maxima. " + keys.length + " moments" +
		     (d.of > d.named ? " and the " + digits(d.named) + " largest of " + digits(d.of) + " stacks" : "") + " are in this page" +
		     (d.of > d.named ? "; the others are summed as (others) where they branch off" : "") + ".");
		make(body, "div", { id: "tip", hidden: "" });
	}

	/* Keys that work wherever one is. */
	function key_anywhere(e) {
		if (e.key === "/" && e.target.tagName !== "INPUT") {
			by_id("find").focus();
			e.preventDefault();
		} else if (e.key === "Escape" && e.target.tagName !== "INPUT") {
			zoom_out();
		}
	}

	/* ---- live: mtrun serves the page, and goes on telling ---- */

	function watch() {
		var bar = make(document.body, "p", { id: "live", "class": "soft" }), text = make(bar, "span", {}), ended = false, stream = new EventSource(d.events), heard = Date.now(), patience = 3000, lost = false;

		document.body.insertBefore(bar, by_id("series"));
		button(bar, "show what is live now", function () {
			/* not the moment that was chosen */
			history.replaceState(null, "", location.pathname + location.search);
			location.reload();
		});
		function tell(prefix, n) {
			text.textContent = prefix + ": " + digits(n.live) + " bytes in " + digits(n.live_blocks) + " blocks, peak " + digits(n.peak) + ", " +
				digits(n.allocs) + " allocations" + (n.rss >= 0 ? ", RSS " + digits(n.rss) : "") + " ";
			set_card("live", about(short_bytes(n.live)), about(digits(n.live_blocks)) + " blocks");
			set_card("peak", about(short_bytes(n.peak)), "at " + seconds(n.peak_ms));
			if (n.rss >= 0)
				set_card("rss", short_bytes(n.rss), "without mtrun's part");
		}
		function take(event, prefix) {
			var n = JSON.parse(event.data);

			heard = Date.now();
			lost = false;
			if (n.pid !== d.pid) {
				ended = true;
				stream.close();
				text.textContent = "another program is served here now, as process " + n.pid + " ";
				return;
			}
			d.curve.push(n.ms, n.live);
			d.activity.push(n.ms, n.allocs + n.maps, n.temporary);
			last = Math.max(last, n.ms);
			if (n.peak > d.peak) {
				d.peak = highest = n.peak;
				d.peak_ms = n.peak_ms;
			}
			tell(prefix, n);
			draw_chart();
		}
		stream.addEventListener("now", function (event) { take(event, "now"); });
		stream.addEventListener("end", function (event) {
			ended = true;
			stream.close();
			take(event, "the program has ended, or was let go; at last");
		});
		stream.onerror = function () {
			lost = true;
			if (!ended)
				text.textContent = "no connection to mtrun: trying again ";
		};
		/* stopped, or too busy: the connection is there, or about to be, and nothing comes */
		setInterval(function () {
			if (!ended && !lost && Date.now() - heard > patience)
				text.textContent = "mtrun has said nothing for " + Math.round((Date.now() - heard) / 1000) + " s ";
		}, 1000);
	}

	d.sites.forEach(function (s) { sites[s[0]] = s; });
	document.title = "Memory of " + (d.command || "a program") + " (" + d.pid + ")";
	series = make_series();
	lay_out();
	draw_chart();
	follow_link();
	listen();
	if (d.events)
		watch();
	addEventListener("hashchange", follow_link);
	addEventListener("keydown", key_anywhere);
	addEventListener("resize", function () {
		draw_chart();
		draw_flame();
	});
	dark.addEventListener("change", function () {
		draw_flame();
		draw_modules();
	});
}());
