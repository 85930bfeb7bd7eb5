/*
 * The script within a flame graph: zoom by a click, search, as wide as the window. The picture is whole without it (an image in a page runs no scripts).
 * What is shown can be linked to: FILE.svg#zoom=NUMBER&search=REGEX.
 */
(function () {
	"use strict";

	var PAD = 10, CHARACTER = 7.0, svg = document.documentElement;
	var frames = [], zoomed = 0, pattern = "", width = 1200;

	function by_id(id) { return document.getElementById(id); }

	function size_text(n) {
		var units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"], i = 0;

		while (n >= 1023.95 && i < 5) {
			n /= 1024;
			i++;
		}
		return (i === 0 ? n : n.toFixed(i < 3 ? 1 : 2)) + " " + units[i];
	}

	function share(n) { return (frames[0].size ? 100 * n / frames[0].size : 0).toFixed(1) + " %"; }

	/* Each frame says where it begins and what it holds, in bytes; which row it is in; its title begins with its whole name. */
	function read(g) {
		var numbers = g.getAttribute("data-at").split(" "), title = g.querySelector("title").textContent;

		return {
			g: g, rect: g.querySelector("rect"), text: g.querySelector("text"), title: title, name: title.split("\n")[0],
			at: +numbers[0], size: +numbers[1], depth: +numbers[2], fill: g.querySelector("rect").getAttribute("fill")
		};
	}

	function cut(name, w) {
		var most = Math.floor((w - 6) / CHARACTER);

		return most < 3 ? "" : name.length <= most ? name : name.slice(0, most - 2) + "..";
	}

	function contains(a, b) { return a.at <= b.at && a.at + a.size >= b.at + b.size; }

	function place(f, x, w, above) {
		f.g.style.display = w < 0.2 ? "none" : "";
		f.g.style.opacity = above ? 0.5 : 1;
		if (w < 0.2)
			return;
		f.rect.setAttribute("x", x.toFixed(2));
		f.rect.setAttribute("width", Math.max(w - 0.5, 0.2).toFixed(2));
		f.text.setAttribute("x", (x + 3).toFixed(2));
		f.text.textContent = cut(f.name, w);
	}

	function layout() {
		var z = frames[zoomed], inner = width - 2 * PAD, size = z.size || 1;

		svg.setAttribute("width", width);
		frames.forEach(function (f) {
			if (f.depth < z.depth && contains(f, z))
				place(f, PAD, inner, true);
			else if (f.depth >= z.depth && contains(z, f))
				place(f, PAD + (f.at - z.at) / size * inner, f.size / size * inner, false);
			else
				place(f, 0, 0, false);
		});
		by_id("background").setAttribute("width", width);
		by_id("search").setAttribute("x", width - PAD);
		by_id("reset").setAttribute("x", width - PAD - 80);
		by_id("reset").style.display = zoomed ? "" : "none";
		by_id("matched").setAttribute("x", width - PAD);
	}

	/* What matches within something that matches is not counted again. Frames come in the order in which they begin, outer ones first. */
	function mark() {
		var regex = null, sum = 0, end = 0;

		if (pattern) {
			try {
				regex = new RegExp(pattern);
			} catch (e) {
				regex = new RegExp(pattern.replace(/[^\w\s]/g, "\\$&"));
			}
		}
		frames.forEach(function (f, i) {
			var hit = regex && i > 0 && regex.test(f.name);

			f.rect.setAttribute("fill", hit ? "#d633d6" : f.fill);
			if (hit && f.at >= end) {
				sum += f.size;
				end = f.at + f.size;
			}
		});
		by_id("matched").textContent = regex ? "matched: " + size_text(sum) + ", " + share(sum) + " of all" : "";
		by_id("search").textContent = regex ? "clear search" : "search";
	}

	function remember() {
		var parts = [];

		if (zoomed)
			parts.push("zoom=" + zoomed);
		if (pattern)
			parts.push("search=" + encodeURIComponent(pattern));
		try {
			history.replaceState(null, "", "#" + parts.join("&"));
		} catch (e) { /* not allowed where the page is within another */ }
	}

	function recall() {
		var zoom = /[#&]zoom=(\d+)/.exec(location.hash), search = /[#&]search=([^&]*)/.exec(location.hash);

		zoomed = zoom && frames[+zoom[1]] ? +zoom[1] : 0;
		try {
			pattern = search ? decodeURIComponent(search[1]) : "";
		} catch (e) {
			pattern = "";
		}
	}

	function zoom(i) {
		zoomed = i;
		layout();
		remember();
	}

	function search() {
		var answer = pattern ? "" : prompt("Search for functions (a regular expression):", "");

		if (answer === null)
			return;
		pattern = answer;
		mark();
		remember();
	}

	function resize() {
		var bar = +svg.getAttribute("height") > window.innerHeight ? 18 : 0;

		width = Math.max((window.innerWidth || 1200) - bar, 400);
		layout();
	}

	window.addEventListener("load", function () {
		frames = Array.prototype.map.call(document.querySelectorAll("g.frame"), read);
		frames.forEach(function (f, i) {
			f.g.addEventListener("click", function () { zoom(i); });
			f.g.addEventListener("mouseover", function () { by_id("detail").textContent = f.title.replace(/\n/g, "  "); });
			f.g.addEventListener("mouseout", function () { by_id("detail").textContent = ""; });
		});
		by_id("search").style.display = "";
		by_id("search").addEventListener("click", search);
		by_id("reset").addEventListener("click", function () { zoom(0); });
		window.addEventListener("keydown", function (e) {
			if (e.key === "F3" || ((e.ctrlKey || e.metaKey) && e.key === "f")) {
				e.preventDefault();
				search();
			} else if (e.key === "Escape") {
				zoom(0);
			}
		});
		window.addEventListener("resize", resize);
		window.addEventListener("hashchange", function () {
			recall();
			layout();
			mark();
		});
		recall();
		resize();
		mark();
	});
})();
