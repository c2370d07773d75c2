//go:build linux

package report

import (
	"bytes"
	"fmt"
	"image/color"
	"io"
	"math"
	"slices"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/locktree/locktree/examples/compare/bench"
)

// A chart is a card of its own colour, so that it reads the same on a light page and on a dark one.
var (
	paper  = color.RGBA{R: 0xfa, G: 0xfa, B: 0xf7, A: 0xff}
	ink    = color.RGBA{R: 0x22, G: 0x26, B: 0x2b, A: 0xff}
	faint  = color.RGBA{R: 0xdd, G: 0xdd, B: 0xd8, A: 0xff}
	others = color.RGBA{R: 0x1f, G: 0x5f, B: 0xa8, A: 0xff}
	ours   = color.RGBA{R: 0xb3, G: 0x3a, B: 0x1a, A: 0xff}
)

// Chart is a picture of figures that the page has in a table, too.
type Chart struct {
	File, Title string
	plot        *plot.Plot
	height      vg.Length
}

// mark is one system's place on a chart: values, of which the middle one is drawn large.
type mark struct {
	name   string
	at     Spread
	values []float64
}

// Charts are those for which there are figures.
func (r *Report) Charts() (all []Chart) {
	for _, w := range r.Workloads {
		file := map[string]string{bench.Alone: "alone.svg", bench.Contended: "contended.svg"}[w.Name]
		if file == "" {
			continue
		}
		var marks []mark
		for _, row := range Rows(r.Results.Samples, w, r.Systems) {
			switch {
			case row.Ratio.N > 0:
				s := row.Ratio
				marks = append(marks, mark{name: row.System, at: Spread{s.N, 1 / s.Median, 1 / s.Max, 1 / s.Min}})
			case row.PerSecond.N > 0:
				marks = append(marks, mark{name: row.System, at: Spread{1, 1, 1, 1}})
			}
		}
		all = appendChart(all, file, "Cycles in the same round, locktree = 1: "+w.Name, "times as many (median and range)", true, marks)
	}
	var fair, free []mark
	for _, f := range r.Claims.Fair {
		if f.Missing == "" {
			m := mark{name: f.System}
			for _, n := range f.Each {
				m.values = append(m.values, float64(n))
			}
			m.at = spread(slices.Clone(m.values))
			fair = append(fair, m)
		}
	}
	for _, k := range r.Claims.Killed {
		if k.Missing == "" && k.Released {
			v := max(k.After, time.Millisecond).Seconds() / k.TTL.Seconds()
			free = append(free, mark{name: k.System, at: Spread{1, v, v, v}})
		}
	}
	all = appendChart(all, "fair.svg", "Grants of each of eight clients that want one lock", "grants to one client", false, fair)
	all = appendChart(all, "killed.svg", "When the lock of a killed holder is granted again", "times to live since kill -9", false, free)
	return appendHerd(all, r)
}

func appendChart(all []Chart, file, title, axis string, log bool, marks []mark) []Chart {
	if len(marks) == 0 {
		return all
	}
	slices.Reverse(marks) // the first one on top
	p := newPlot(title, axis)
	var names []string
	for i, m := range marks {
		names = append(names, m.name)
		c := others
		if m.name == "locktree" {
			c = ours
		}
		at := float64(i)
		line, _ := plotter.NewLine(plotter.XYs{{X: m.at.Min, Y: at}, {X: m.at.Max, Y: at}}) // two finite points
		line.Color, line.Width = c, vg.Points(1.2)
		p.Add(line, dots(c, 1.8, at, m.values...), dots(c, 3.4, at, m.at.Median))
	}
	p.NominalY(names...)
	p.X.Max *= 1.03 // room for the last dot
	p.Y.LineStyle.Width = 0
	p.Y.Padding = vg.Points(4)
	if log {
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.TickerFunc(decades)
	} else {
		p.X.Min = 0
	}
	return append(all, Chart{file, title, p, vg.Length(len(marks))*vg.Points(19) + vg.Points(70)})
}

func dots(c color.Color, radius float64, y float64, xs ...float64) *plotter.Scatter {
	var points plotter.XYs
	for _, x := range xs {
		points = append(points, plotter.XY{X: x, Y: y})
	}
	s := &plotter.Scatter{XYs: points}
	s.GlyphStyle = draw.GlyphStyle{Color: c, Radius: vg.Points(radius), Shape: draw.CircleGlyph{}}
	return s
}

// decades has ticks at 1, 2 and 5 of each, with numbers a person reads.
func decades(low, high float64) (ticks []plot.Tick) {
	for e := math.Floor(math.Log10(low)); e <= math.Ceil(math.Log10(high)); e++ {
		for _, m := range []float64{1, 2, 5} {
			if v := m * math.Pow(10, e); v >= low && v <= high {
				ticks = append(ticks, plot.Tick{Value: v, Label: fmt.Sprintf("%g", v)})
			}
		}
	}
	return ticks
}

func appendHerd(all []Chart, r *Report) []Chart {
	ways := map[string]plotter.XYs{}
	var names []string
	for _, h := range r.Claims.Herd {
		if h.Missing != "" || h.Woken == 0 {
			continue
		}
		if ways[h.System] == nil {
			names = append(names, h.System)
		}
		ways[h.System] = append(ways[h.System], plotter.XY{X: float64(h.Waiters), Y: float64(h.Woken)})
	}
	if len(names) == 0 {
		return all
	}
	const title = "Waiters woken by one release"
	p := newPlot(title, "clients that wait")
	for _, name := range names {
		c := others
		dashes := []vg.Length{vg.Points(5), vg.Points(3)}
		switch name {
		case "locktree":
			c, dashes = ours, nil
		case "go-zookeeper":
			dashes = nil
		}
		line, _ := plotter.NewLine(ways[name]) // of finite points
		line.Color, line.Width, line.Dashes = c, vg.Points(1.6), dashes
		p.Add(line)
		p.Legend.Add(name, line)
		for _, xy := range ways[name] {
			p.Add(dots(c, 2.6, xy.Y, xy.X))
		}
	}
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.TickerFunc(decades)
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.TickerFunc(decades)
	p.Legend.Top, p.Legend.Left, p.Legend.TextStyle.Color = true, true, ink
	return append(all, Chart{"herd.svg", title, p, vg.Points(240)})
}

func newPlot(title, axis string) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = paper
	for _, text := range []*font.Font{&p.Title.TextStyle.Font, &p.X.Label.TextStyle.Font, &p.X.Tick.Label.Font, &p.Y.Tick.Label.Font, &p.Legend.TextStyle.Font} {
		text.Variant = "Sans"
	}
	p.Title.Text, p.Title.TextStyle.Color, p.Title.Padding = title, ink, vg.Points(6)
	p.X.Label.Text = axis
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Color, a.Label.TextStyle.Color, a.Tick.Label.Color, a.Tick.Color = ink, ink, ink, ink
	}
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = faint, faint
	p.Add(grid)
	return p
}

// Write draws it.
func (c Chart) Write(w io.Writer) error {
	canvas := vgsvg.New(vg.Points(560), c.height)
	card := draw.New(canvas)
	card.FillPolygon(paper, []vg.Point{card.Min, {X: card.Max.X, Y: card.Min.Y}, card.Max, {X: card.Min.X, Y: card.Max.Y}})
	c.plot.Draw(draw.Crop(card, vg.Points(8), -vg.Points(14), vg.Points(6), -vg.Points(8)))
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return err
	}
	// Who does not have the font has another without serifs.
	_, err := w.Write(bytes.ReplaceAll(b.Bytes(), []byte("Liberation Sans"), []byte("Liberation Sans,Arial,sans-serif")))
	return err
}
