/*
 * The page of `export html`: memory over time on top; below it the flame graph and the sites of the moment that is chosen there (a click), or of what has come
 * over a range (a drag). The numbers are in the element `data`, as html.c writes them; all texts go in as text, never as markup.
 * What is shown can be linked to: #at=MS, #at=peak, #from=MS&to=MS.
 */
(function () {
	"use strict";

	var d = JSON.parse(document.getElementById("data").textContent);
	var SVG = "http://www.w3.org/2000/svg", LEFT = 70, RIGHT = 16, TOP = 48, HEIGHT = 230, BOTTOM = 24, ROW = 19, DEEPEST = 60;
	var keys = decode(d.keys), columns = pairs(d.columns), nodes = [[0, 0]].concat(pairs(d.nodes)), sites = {}, others = nodes.length;
	var from = null, to = keys.length - 1, zoomed = 0, pattern = null, all_rows = false, tree = null;

	/* ---- the numbers ---- */

	function pairs(flat) {
		var out = [];

		for (var i = 0; i < flat.length; i += 2)
			out.push([flat[i], flat[i + 1]]);
		return out;
	}

	/* Each key moment says what differs from the one before; here each has all. */
	function decode(list) {
		var bytes = [], count = [];

		return list.map(function (k) {
			bytes = bytes.slice();
			count = count.slice();
			for (var i = 0; i < k[4].length; i += 3) {
				bytes[k[4][i]] = k[4][i + 1];
				count[k[4][i]] = k[4][i + 2];
			}
			return { from: k[0], ms: k[1], size: k[2], number: k[3], bytes: bytes, count: count };
		});
	}

	/* What each column (a stack, or what others hold at a site) holds, or has got more: [size, count] each, and what is in none. */
	function amounts() {
		var now = keys[to], then = from === null ? null : keys[from], list = [], rest = [now.size, now.number];

		if (then)
			rest = [rest[0] - then.size, rest[1] - then.number];
		for (var i = 0; i < columns.length; i++) {
			var size = (now.bytes[i] || 0) - (then ? then.bytes[i] || 0 : 0), count = (now.count[i] || 0) - (then ? then.count[i] || 0 : 0);

			list.push([size, count]);
			rest[0] -= size;
			rest[1] -= count;
		}
		return { list: list, rest: rest, size: now.size - (then ? then.size : 0), count: now.number - (then ? then.number : 0) };
	}

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
	function signed(n) { return (d.estimated ? "~" : "") + (from === null ? digits(n) : (n > 0 ? "+" : n < 0 ? "\u2212" : "") + digits(Math.abs(n))); }

	function short_bytes(n) {
		var units = ["B", "KiB", "MiB", "GiB", "TiB"], i = 0;

		for (; n >= 1023.95 && i < 4; i++)
			n /= 1024;
		return (i ? n.toFixed(1) : n) + " " + units[i];
	}

	function two(n) { return (n < 10 ? "0" : "") + n; }

	function seconds(ms) {
		var s = Math.floor(ms / 1000);

		return ms < 7200000 ? (ms / 1000).toFixed(ms % 100 ? 3 : 1) + " s" : Math.floor(s / 3600) + ":" + two(Math.floor(s / 60) % 60) + ":" + two(s % 60) + " h";
	}

	function share(n, of) { return of ? (100 * n / of).toFixed(1) + " %" : ""; }
	function place(f, file, line) { return f[file] ? f[file].split("/").pop() + (f[line] ? ":" + f[line] : "") : ""; }

	function make(parent, name, attributes, text) {
		var e = parent instanceof SVGElement ? document.createElementNS(SVG, name) : document.createElement(name);

		for (var a in attributes)
			e.setAttribute(a, attributes[a]);
		if (text !== undefined)
			e.textContent = text;
		parent.appendChild(e);
		return e;
	}

	/* ---- the timeline ---- */

	var chart, width, last = Math.max(d.now_ms, d.began_ms + 1), highest = Math.max(d.peak, 1);

	function x_of(ms) { return LEFT + (ms - d.began_ms) / (last - d.began_ms) * (width - LEFT - RIGHT); }
	function y_of(bytes) { return TOP + HEIGHT - bytes / highest * HEIGHT; }
	function ms_of(x) { return Math.min(last, Math.max(d.began_ms, d.began_ms + (x - LEFT) / (width - LEFT - RIGHT) * (last - d.began_ms))); }

	/* Steps that are easy to read, so that there are few of them. */
	function step_of(range, most, base) {
		var s = base;

		for (var i = 0; range / s > most; i++)
			s = base * Math.pow(10, Math.floor(i / 3)) * [1, 2, 5][i % 3];
		return s;
	}

	function time_step(range) {
		var steps = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800, 86400], i = 0;

		while (i < steps.length - 1 && range / (steps[i] * 1000) > 12)
			i++;
		return Math.max(steps[i] * 1000, i < steps.length - 1 ? 0 : Math.ceil(range / 12 / 86400000) * 86400000);
	}

	function clock(ms) {
		var s = Math.floor(ms / 1000);

		return last < 120000 ? ms / 1000 + " s" : last < 7200000 ? Math.floor(s / 60) + ":" + two(s % 60) :
			Math.floor(s / 3600) + ":" + two(Math.floor(s / 60) % 60) + " h";
	}

	function draw_axes() {
		var unit = 1, names = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"], name = 0, step;

		for (; highest / unit >= 1024; name++)
			unit *= 1024;
		step = step_of(highest, 5, unit === 1 ? 1 : unit / 10);
		for (var i = 0; i * step <= highest; i++) {
			make(chart, "line", { "class": "grid", x1: LEFT, x2: width - RIGHT, y1: y_of(i * step), y2: y_of(i * step) });
			make(chart, "text", { x: LEFT - 6, y: y_of(i * step) + 4, "text-anchor": "end" }, +(i * step / unit).toFixed(1) + " " + names[name]);
		}
		step = time_step(last - d.began_ms);
		for (var t = Math.ceil(d.began_ms / step) * step; t <= last; t += step)
			make(chart, "text", { x: x_of(t), y: TOP + HEIGHT + 16, "text-anchor": "middle" }, clock(t));
	}

	function draw_curve() {
		var path = "", y = y_of(0);

		for (var i = 0; i < d.curve.length; i += 2) {
			path += (path ? "L" : "M") + x_of(d.curve[i]).toFixed(1) + " " + y.toFixed(1);
			y = y_of(d.curve[i + 1]);
			path += "L" + x_of(d.curve[i]).toFixed(1) + " " + y.toFixed(1);
		}
		path += (path ? "L" : "M" + LEFT + " " + y + "L") + x_of(last).toFixed(1) + " " + y.toFixed(1);
		make(chart, "path", { "class": "area", d: path + "L" + x_of(last) + " " + y_of(0) + "Z" });
		make(chart, "path", { "class": "edge", d: path });
	}

	function draw_marks() {
		var free = [-1e9, -1e9], x, row, label;

		d.marks.forEach(function (m) {
			x = x_of(m[0]);
			make(chart, "line", { "class": "mark", x1: x, x2: x, y1: TOP, y2: TOP + HEIGHT });
			row = x > free[0] ? 0 : x > free[1] ? 1 : -1;
			if (row < 0)
				return;
			label = make(chart, "text", { "class": "mark", x: x + 3, y: 12 + row * 13 }, m[1]);
			free[row] = x + label.getComputedTextLength() + 10;
		});
		x = x_of(d.peak_ms);
		make(chart, "circle", { "class": "peak", cx: x, cy: y_of(d.peak), r: 4 });
		make(chart, "text", { "class": "peak", x: x > width / 2 ? x - 5 : x + 5, y: y_of(d.peak) - 6, "text-anchor": x > width / 2 ? "end" : "start" },
		     "peak " + short_bytes(d.peak) + " at " + seconds(d.peak_ms));
	}

	function draw_choice(a, b) {
		chart.querySelectorAll(".pick, .range").forEach(function (e) { e.remove(); });
		if (a !== null)
			make(chart, "rect", { "class": "range", x: x_of(Math.min(a, b)), width: Math.abs(x_of(b) - x_of(a)), y: TOP, height: HEIGHT });
		[a, b].forEach(function (ms) {
			if (ms !== null)
				make(chart, "line", { "class": "pick", x1: x_of(ms), x2: x_of(ms), y1: TOP, y2: TOP + HEIGHT });
		});
	}

	function draw_chart() {
		width = chart.parentNode.clientWidth;
		chart.textContent = "";
		chart.setAttribute("viewBox", "0 0 " + width + " " + (TOP + HEIGHT + BOTTOM));
		chart.setAttribute("height", TOP + HEIGHT + BOTTOM);
		draw_axes();
		draw_curve();
		draw_marks();
		draw_choice(from === null ? null : keys[from].ms, keys[to].ms);
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
		});
		chart.addEventListener("pointerup", function (e) {
			var a = ms_of(down === null ? at(e) : down), b = ms_of(at(e)), is_range = down !== null && Math.abs(at(e) - down) >= 5;

			down = null;
			choose(is_range ? key_at(Math.min(a, b)) : null, key_at(Math.max(a, b)));
		});
	}

	/* ---- the flame graph ---- */

	/* Of each node: what it holds, what of that is drawn (in a range growth and shrinkage beside each other, both as wide as they are large), children. */
	function build(a) {
		var size = [], wide = [], count = [], child = [], i, p;

		function add(node, amount) {
			size[node] += amount[0];
			wide[node] += Math.abs(amount[0]);
			count[node] += amount[1];
		}

		for (i = 0; i <= others; i++) {
			size.push(0);
			wide.push(0);
			count.push(0);
			child.push([]);
		}
		for (i = 0; i < columns.length; i++)
			add(columns[i][0] || others, a.list[i]);
		add(others, a.rest);
		for (i = others; i > 0; i--) {
			p = i === others ? 0 : nodes[i][0];
			size[p] += size[i];
			wide[p] += wide[i];
			count[p] += count[i];
			if (wide[i])
				child[p].push(i);
		}
		child.forEach(function (list) { list.sort(function (x, y) { return wide[y] - wide[x] || x - y; }); });
		return { size: size, wide: wide, count: count, child: child };
	}

	function name_of(node) { return node === 0 ? "all" : node === others ? "(others)" : d.frames[nodes[node][1]][0]; }

	function title_of(node) {
		var f = node && node !== others ? d.frames[nodes[node][1]] : null;
		var what = node === others ? digits(d.of - d.named) + " stacks that held less, summed (their sites are below)" : f ? f[1] : "";

		return name_of(node) + "\n" + (what ? what + "\n" : "") + signed(tree.size[node]) + " bytes" + (from === null ? " in " : ", ") + signed(tree.count[node]) + " blocks" +
			(from === null ? ", " + share(tree.size[node], tree.size[0]) : "");
	}

	function is_below(node, above) {
		for (; node > above && node !== others; node = nodes[node][0])
			;
		return node === above || above === 0;
	}

	function put_frame(flame, node, x, w, depth) {
		var kind = node === others ? "other" : from === null ? "frame" : tree.size[node] >= 0 ? "more" : "less";
		var f = make(flame, "div", { "class": kind, "data-node": node, "data-bytes": tree.size[node], title: title_of(node) },
			     w > 30 ? name_of(node) + (from === null ? "" : "  " + signed(tree.size[node])) : "");

		f.style.left = x + "px";
		f.style.width = w + "px";
		if (w <= 30)
			f.style.padding = 0;
		f.style.top = depth * ROW + "px";
		if (zoomed && node !== zoomed && !is_below(node, zoomed))
			f.classList.add("above");
		if (pattern && !pattern.test(name_of(node)))
			f.classList.add("unmatched");
		return f;
	}

	function draw_flame() {
		var flame = document.getElementById("flame"), w = flame.clientWidth, line = [], deepest = 0, todo, depth = 0;

		flame.textContent = "";
		if (!tree.wide[zoomed])
			zoomed = 0;
		if (!tree.wide[0]) {
			flame.style.height = "";
			make(flame, "p", { "class": "soft" }, from === null ? "Nothing was live." : "Nothing has changed.");
			return;
		}
		for (var n = zoomed; n; n = n === others ? 0 : nodes[n][0])
			line.unshift(n);
		[0].concat(line.slice(0, -1)).forEach(function (node) {
			if (zoomed)
				put_frame(flame, node, 0, w, depth++);
		});
		todo = [[zoomed, 0, w, depth]];
		while (todo.length) {
			var t = todo.pop(), x = t[1];

			put_frame(flame, t[0], x, t[2], t[3]);
			deepest = Math.max(deepest, t[3]);
			if (t[3] - depth < DEEPEST)
				tree.child[t[0]].forEach(function (c) {
					var cw = t[2] * tree.wide[c] / tree.wide[t[0]];

					if (cw >= 0.7)
						todo.push([c, x, cw, t[3] + 1]);
					x += cw;
				});
		}
		flame.style.height = (deepest + 1) * ROW + "px";
	}

	/* ---- the sites ---- */

	function site_rows(a) {
		var by = {}, rows = [], i, s;

		for (i = 0; i < columns.length; i++) {
			s = by[columns[i][1]] = by[columns[i][1]] || { site: sites[columns[i][1]], size: 0, count: 0 };
			s.size += a.list[i][0];
			s.count += a.list[i][1];
		}
		for (i in by)
			if (by[i].size || by[i].count)
				rows.push(by[i]);
		rows.sort(function (x, y) { return y.size - x.size; });
		if (a.rest[0] || a.rest[1])
			rows.push({ site: [0, "(others)", "", 0], size: a.rest[0], count: a.rest[1] });
		return rows;
	}

	function draw_sites(a) {
		var table = document.getElementById("sites"), rows = site_rows(a), more = document.getElementById("more"), head;

		table.textContent = "";
		head = make(make(table, "thead", {}), "tr", {});
		[["bytes", "n"], [from === null ? "share" : "", "n"], ["blocks", "n"], ["function", ""], ["where", ""]].forEach(function (h) {
			make(head, "th", { "class": h[1] }, h[0]);
		});
		table = make(table, "tbody", {});
		rows.slice(0, all_rows ? rows.length : 25).forEach(function (r) {
			var tr = make(table, "tr", { "data-bytes": r.size, "data-count": r.count });

			make(tr, "td", { "class": "n" }, signed(r.size));
			make(tr, "td", { "class": "n" }, from === null ? share(r.size, a.size) : "");
			make(tr, "td", { "class": "n" }, signed(r.count));
			make(tr, "td", { "class": "name" }, r.site[1]);
			make(tr, "td", { "class": "name", title: r.site[2] }, place(r.site, 2, 3));
		});
		more.hidden = rows.length <= 25;
		more.textContent = all_rows ? "fewer" : "all " + rows.length + " sites";
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
			make(tr, "td", { "class": "name" }, r[2]);
			make(tr, "td", { "class": "name", title: r[3] }, place(r, 3, 4));
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
		make(body, "h2", {}, "Pages of which at most half is live: " + digits(m.all[0]) + " bytes kept by " + digits(m.all[1]));
		make(body, "p", { "class": "soft" }, "What a site keeps would be given back if its blocks were gone.");
		draw_kept(body, m);
	}

	/* ---- leaks ---- */

	/* The functions of the stack that ends in NODE, innermost first, a line each. */
	function stack_of(node) {
		var lines = [];

		for (; node; node = nodes[node][0])
			lines.push(d.frames[nodes[node][1]].filter(function (t) { return t; }).join("  "));
		return lines.join("\n");
	}

	function draw_leak(body, r) {
		var tr = make(body, "tr", { "class": "leak", "data-kind": r[0], "data-bytes": r[1], "data-count": r[2] }), stack;

		make(tr, "td", {}, d.leaks.sums[r[0]][0]);
		make(tr, "td", { "class": "n" }, digits(r[1]));
		make(tr, "td", { "class": "n" }, digits(r[2]));
		make(tr, "td", { "class": "n" }, r[4] ? digits(r[3]) + " in " + digits(r[4]) : "");
		make(tr, "td", { "class": "name" }, r[5]);
		make(tr, "td", { "class": "name", title: r[6] }, place(r, 6, 7));
		stack = make(body, "tr", {});
		stack.hidden = true;
		make(stack, "td", {});
		make(make(stack, "td", { colspan: 5, "class": "name" }), "pre", {}, stack_of(r[8]));
		tr.addEventListener("click", function () { stack.hidden = !stack.hidden; });
	}

	function draw_leaks(body) {
		var l = d.leaks, table, head;

		make(body, "h2", {}, "Leaks at the end of the record: " + digits(l.sums[0][1] + l.sums[1][1]) + " bytes in " + digits(l.sums[0][2] + l.sums[1][2]) + " blocks");
		make(body, "p", { "class": "soft" }, "What nothing points to any more, and what only that points to. A click on a row shows its stack." + (l.remark ? " " + l.remark + "." : ""));
		table = make(body, "table", { id: "lost" });
		head = make(make(table, "thead", {}), "tr", {});
		[["", ""], ["bytes", "n"], ["blocks", "n"]].forEach(function (h) { make(head, "th", { "class": h[1] }, h[0]); });
		table = make(table, "tbody", {});
		l.sums.forEach(function (s) {
			var tr = make(table, "tr", { "data-lost": s[0], "data-bytes": s[1], "data-count": s[2] });

			make(tr, "td", {}, s[0]);
			make(tr, "td", { "class": "n" }, digits(s[1]));
			make(tr, "td", { "class": "n" }, digits(s[2]));
		});
		if (!l.records.length)
			return;
		table = make(body, "table", { id: "leaks" });
		head = make(make(table, "thead", {}), "tr", {});
		[["", ""], ["bytes", "n"], ["blocks", "n"], ["lost with them", "n"], ["function", ""], ["where", ""]].forEach(function (h) { make(head, "th", { "class": h[1] }, h[0]); });
		table = make(table, "tbody", {});
		l.records.forEach(function (r) { draw_leak(table, r); });
		if (l.others[2])
			make(body, "p", {}, digits(l.others[2]) + " more records: " + digits(l.others[0]) + " bytes in " + digits(l.others[1]) + " blocks");
	}

	/* ---- what is shown ---- */

	function describe(a) {
		var what = document.getElementById("what"), k = keys[to];
		var when = to === keys.length - 1 ? "at the end of the record, " : to === peak_key() ? "at the peak, " : "at ";

		what.textContent = from === null ? "Live " + when + seconds(k.ms) + ": " + signed(a.size) + " bytes in " + signed(a.count) + " blocks" :
			"From " + seconds(keys[from].ms) + " to " + seconds(k.ms) + ": " + signed(a.size) + " bytes, " + signed(a.count) + " blocks";
		what.setAttribute("data-bytes", a.size);
		what.setAttribute("data-count", a.count);
	}

	function show() {
		var a = amounts();

		tree = build(a);
		describe(a);
		draw_choice(from === null ? null : keys[from].ms, keys[to].ms);
		draw_flame();
		draw_sites(a);
	}

	function choose(a, b) {
		from = a;
		to = b;
		zoomed = 0;
		show();
		history.replaceState(null, "", from === null ? "#at=" + keys[to].ms : "#from=" + keys[from].ms + "&to=" + keys[to].ms);
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

		if (location.hash === "#at=peak") {
			from = null;
			to = peak_key();
		} else if ((m = /^#at=(\d+)$/.exec(location.hash))) {
			from = null;
			to = key_of(m[1]);
		} else if ((m = /^#from=(\d+)&to=(\d+)$/.exec(location.hash)) && +m[1] <= +m[2]) {
			from = key_of(m[1]);
			to = key_of(m[2]);
		} else {
			from = null;
			to = keys.length - 1;
		}
		show();
	}

	function button(parent, text, fn) { make(parent, "button", { type: "button" }, text).addEventListener("click", fn); }

	function lay_out() {
		var body = document.body, header = make(body, "header", {}), bar, flame, box;

		make(header, "h1", {}, "Memory of " + (d.command || "a program"));
		make(header, "span", { "class": "soft" }, "process " + d.pid + ", " + seconds(d.now_ms - d.began_ms) + " from " +
		     new Date(d.clock_ms + d.began_ms).toLocaleString() + (d.estimated ? "; estimated from samples" : ""));
		make(header, "span", { "class": "soft" }, d.command_line[0]);
		if (d.before)
			make(body, "p", { id: "before" }, "Beside what is shown here there was a heap before mtrun came: " + (d.before.unknown ||
			     digits(d.before.bytes) + " bytes in " + digits(d.before.blocks) + " blocks") + ".");
		make(body, "p", { "class": "soft" }, "Click: what was live then. Drag: what has come between two moments.");
		chart = document.createElementNS(SVG, "svg");
		chart.id = "timeline";
		make(body, "div", {}).appendChild(chart);
		bar = make(body, "div", { "class": "bar" });
		make(bar, "div", { id: "what" });
		button(bar, "peak", function () { choose(null, peak_key()); });
		button(bar, "end", function () { choose(null, keys.length - 1); });
		button(bar, "start to end", function () { choose(0, keys.length - 1); });
		button(bar, "zoom out", function () {
			zoomed = 0;
			draw_flame();
		});
		box = make(bar, "input", { type: "search", placeholder: "find functions", size: 18 });
		box.addEventListener("input", function () {
			pattern = box.value ? new RegExp(box.value.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "i") : null;
			draw_flame();
		});
		flame = make(body, "div", { id: "flame" });
		flame.addEventListener("click", function (e) {
			if (e.target.hasAttribute("data-node")) {
				zoomed = +e.target.getAttribute("data-node");
				draw_flame();
			}
		});
		make(body, "h2", {}, "Sites");
		make(body, "table", { id: "sites" });
		button(make(body, "p", {}), "", function () {
			all_rows = !all_rows;
			draw_sites(amounts());
		});
		body.lastChild.firstChild.id = "more";
		if (d.leaks)
			draw_leaks(body);
		if (d.residency)
			draw_residency(body);
		make(body, "footer", { "class": "soft" }, "mtrun " + d.version + ". Callers are above what they call; the width is bytes. The curve shows local maxima. " +
		     keys.length + " moments" + (d.of > d.named ? " and the " + digits(d.named) + " largest of " + digits(d.of) + " stacks" : "") + " are in this page.");
	}

	/* ---- live: mtrun serves the page, and goes on telling ---- */

	function watch() {
		var bar = make(document.body, "p", { id: "live", "class": "soft" }), text = make(bar, "span", {}), ended = false, stream = new EventSource(d.events);

		document.body.insertBefore(bar, chart.parentNode);
		button(bar, "show what is live now", function () { location.reload(); });
		function tell(prefix, n) {
			text.textContent = prefix + ": " + digits(n.live) + " bytes in " + digits(n.live_blocks) + " blocks, peak " + digits(n.peak) + ", " +
				digits(n.allocs) + " allocations" + (n.rss >= 0 ? ", RSS " + digits(n.rss) : "") + " ";
		}
		function take(event, prefix) {
			var n = JSON.parse(event.data);

			d.curve.push(n.ms, n.live);
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
			if (!ended)
				text.textContent = "no connection to mtrun: trying again ";
		};
	}

	d.sites.forEach(function (s) { sites[s[0]] = s; });
	document.title = "Memory of " + (d.command || "a program") + " (" + d.pid + ")";
	lay_out();
	draw_chart();
	follow_link();
	listen();
	if (d.events)
		watch();
	addEventListener("hashchange", follow_link);
	addEventListener("resize", function () {
		draw_chart();
		draw_flame();
	});
}());
