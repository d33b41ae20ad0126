package main

import (
	"bytes"
	"fmt"
	"image/color"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// plotSize is the size of value that the plots show.
const plotSize = 100

var plotColors = []color.Color{
	color.RGBA{0xd6, 0x27, 0x28, 0xff},
	color.RGBA{0x1f, 0x77, 0xb4, 0xff},
	color.RGBA{0x2c, 0xa0, 0x2c, 0xff},
	color.RGBA{0x94, 0x67, 0xbd, 0xff},
}

// plotThroughput draws one plot for each operation.
func (r *report) plotThroughput(m throughputs, peers []peer) {
	for _, op := range singleOps {
		title := fmt.Sprintf("%s of %d bytes", op, plotSize)
		svg, err := drawThroughput(title, op, m, peers)
		if err != nil {
			panic(err) // the plot holds nothing that was not made here
		}
		r.plot("bench-"+strings.ToLower(op)+".svg", title+", operations a second by goroutines", svg)
	}
}

func drawThroughput(title, op string, m throughputs, peers []peer) ([]byte, error) {
	p := plot.New()
	p.Title.Text = title
	p.X.Label.Text, p.Y.Label.Text = "goroutines", "operations a second"
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.Y.Tick.Marker = plot.ConstantTicks(roundTicks())
	var ticks []plot.Tick
	for _, goroutines := range goroutineCounts {
		ticks = append(ticks, plot.Tick{Value: float64(goroutines), Label: fmt.Sprint(goroutines)})
	}
	p.X.Tick.Marker = plot.ConstantTicks(ticks)
	p.Legend.Top, p.Legend.Left, p.Legend.XOffs = true, true, vg.Centimeter/2
	p.Add(plotter.NewGrid())
	for i, peer := range peers {
		var points plotter.XYs
		for _, goroutines := range goroutineCounts {
			ops := m[cell{op, plotSize, goroutines}][peer.name].ops
			points = append(points, plotter.XY{X: float64(goroutines), Y: max(ops, 1)})
		}
		line, dots, err := plotter.NewLinePoints(points)
		if err != nil {
			return nil, err
		}
		line.Color, dots.Color = plotColors[i], plotColors[i]
		line.Width, dots.Shape = vg.Points(1.5), draw.CircleGlyph{}
		p.Add(line, dots)
		p.Legend.Add(peer.name, line, dots)
	}
	p.X.Max = 640 // room for the last label
	writer, err := p.WriterTo(16*vg.Centimeter, 10*vg.Centimeter, "svg")
	if err != nil {
		return nil, err
	}
	var svg bytes.Buffer
	_, err = writer.WriteTo(&svg)
	return svg.Bytes(), err
}

// roundTicks are 1, 2 and 5 and their multiples by powers of ten.
func roundTicks() (ticks []plot.Tick) {
	for decade := 100; decade <= 10_000_000; decade *= 10 {
		for _, n := range []int{decade, 2 * decade, 5 * decade} {
			ticks = append(ticks, plot.Tick{Value: float64(n), Label: count(n)})
		}
	}
	return ticks
}
