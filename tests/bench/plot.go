package main

import (
	"bytes"
	"fmt"
	"math"
	"strings"
)

// plotSize is the value size that the plots show.
const plotSize = 100

// A plot is an SVG with a white background, so that it reads the same in light and dark themes. Both axes are logarithmic.
const (
	plotWidth, plotHeight = 800, 420
	plotLeft, plotRight   = 108, 580 // of the area with the lines; the legend stands right of it
	plotTop, plotBottom   = 56, 352
)

var plotColors = []string{"#d62728", "#1f77b4", "#2ca02c", "#9467bd"}

func (r *report) throughputPlot(op string, t throughputs) {
	title := fmt.Sprintf("%s, %d-byte values", op, plotSize)
	r.plot("bench-"+strings.ToLower(op)+".svg", title+": operations per second by number of goroutines", drawThroughput(title, op, t))
}

func drawThroughput(title, op string, t throughputs) []byte {
	low, high := math.Inf(1), 0.0
	for _, client := range t.clients() {
		for _, goroutines := range goroutineCounts {
			ops := max(t.of(op, plotSize, goroutines, client).Ops, 1)
			low, high = min(low, ops), max(high, ops)
		}
	}
	ticks := roundTicks(low, high)
	x := logScale(float64(goroutineCounts[0]), float64(goroutineCounts[len(goroutineCounts)-1]), plotLeft+16, plotRight-16)
	y := logScale(float64(ticks[0]), float64(ticks[len(ticks)-1]), plotBottom, plotTop)

	var svg bytes.Buffer
	add := func(format string, args ...any) { fmt.Fprintf(&svg, format+"\n", args...) }
	add(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d"`+
		` font-family="Helvetica, Arial, sans-serif" font-size="14" fill="#24292f">`, plotWidth, plotHeight)
	add(`<title>%s: operations per second by number of goroutines</title>`, title)
	add(`<rect width="%d" height="%d" rx="6" fill="#ffffff"/>`, plotWidth, plotHeight)
	add(`<text x="%d" y="32" font-size="17" font-weight="bold">%s</text>`, plotLeft, title)
	for _, tick := range ticks {
		at := y(float64(tick))
		add(`<path d="M%d %.1fH%d" stroke="#d8dee4"/>`, plotLeft, at, plotRight)
		add(`<text x="%d" y="%.1f" text-anchor="end">%s</text>`, plotLeft-10, at+5, count(tick))
	}
	for _, goroutines := range goroutineCounts {
		at := x(float64(goroutines))
		add(`<path d="M%.1f %dv6" stroke="#57606a"/>`, at, plotBottom)
		add(`<text x="%.1f" y="%d" text-anchor="middle">%d</text>`, at, plotBottom+24, goroutines)
	}
	add(`<path d="M%d %dV%dH%d" fill="none" stroke="#57606a"/>`, plotLeft, plotTop, plotBottom, plotRight)
	add(`<text x="%d" y="%d" text-anchor="middle">goroutines (log scale)</text>`, (plotLeft+plotRight)/2, plotBottom+52)
	add(`<text transform="translate(20 %d) rotate(-90)" text-anchor="middle">operations per second (log scale)</text>`,
		(plotTop+plotBottom)/2)
	for i, client := range t.clients() {
		color, points := plotColors[i%len(plotColors)], []string{}
		for _, goroutines := range goroutineCounts {
			ops := max(t.of(op, plotSize, goroutines, client).Ops, 1)
			points = append(points, fmt.Sprintf("%.1f,%.1f", x(float64(goroutines)), y(ops)))
		}
		legend := plotTop + 16 + 28*i
		add(`<g stroke="%s" fill="%[1]s">`, color)
		add(`<polyline points="%s" fill="none" stroke-width="2.5"/>`, strings.Join(points, " "))
		for _, point := range points {
			cx, cy, _ := strings.Cut(point, ",")
			add(`<circle cx="%s" cy="%s" r="4"/>`, cx, cy)
		}
		add(`<path d="M%d %dh28" stroke-width="2.5"/><circle cx="%d" cy="%d" r="4"/>`,
			plotRight+16, legend, plotRight+30, legend)
		add(`</g>`)
		add(`<text x="%d" y="%d">%s</text>`, plotRight+52, legend+5, client)
	}
	add(`</svg>`)
	return svg.Bytes()
}

// logScale maps low to from and high to to.
func logScale(low, high, from, to float64) func(float64) float64 {
	return func(v float64) float64 {
		return from + (to-from)*(math.Log(v)-math.Log(low))/(math.Log(high)-math.Log(low))
	}
}

// roundTicks returns the numbers 1, 2 and 5 times a power of ten that enclose the range from low to high.
func roundTicks(low, high float64) (ticks []int) {
	var last int
	for decade := 1; ; decade *= 10 {
		for _, n := range []int{decade, 2 * decade, 5 * decade} {
			switch {
			case float64(n) <= low:
				last = n
				continue
			case len(ticks) == 0:
				ticks = append(ticks, max(last, 1))
			}
			ticks = append(ticks, n)
			if float64(n) >= high {
				return ticks
			}
		}
	}
}
