// Package shardedlistprom exports the counters of sharded lists to Prometheus.
//
//	prometheus.MustRegister(shardedlistprom.NewCollector("jobs", jobs))
//
// It is a module of its own, so that the library does not depend on the client of Prometheus. docs/metrics.md of the library says what
// the metrics mean; alerts.yml and dashboard.json here use them.
package shardedlistprom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/survey"
)

// Source is a *shardedlist.ShardedList or a *shardedlist.Hook.
type Source interface{ Stats() shardedlist.Stats }

// NewCollector returns a collector of the counters of a list, or of all lists of a hook together. name is the value of the label "list".
// Collectors of different names can be registered side by side.
//
// The counters are those of this process. Prometheus adds up the processes.
func NewCollector(name string, source Source) prometheus.Collector {
	c := &collector{source: source}
	for _, m := range metrics {
		var labels []string
		if m.label != "" {
			labels = []string{m.label}
		}
		c.descs = append(c.descs, prometheus.NewDesc(m.name, m.help, labels, prometheus.Labels{"list": survey.Label(name)}))
	}
	return c
}

type collector struct {
	source Source
	descs  []*prometheus.Desc // of the metrics, in their order
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range c.descs {
		descs <- desc
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(samples chan<- prometheus.Metric) {
	stats := c.source.Stats()
	for i, m := range metrics {
		if m.batches != nil {
			b := m.batches(stats)
			buckets := make(map[float64]uint64, len(b.Sizes))
			for _, size := range b.Sizes {
				buckets[float64(size.Most)] = uint64(size.Count)
			}
			samples <- prometheus.MustNewConstHistogram(c.descs[i], uint64(b.Count), float64(b.Calls), buckets)
			continue
		}
		kind := prometheus.CounterValue
		if m.gauge {
			kind = prometheus.GaugeValue
		}
		for _, v := range m.values(stats) {
			var labels []string
			if m.label != "" {
				labels = []string{v.label}
			}
			samples <- prometheus.MustNewConstMetric(c.descs[i], kind, v.number, labels...)
		}
	}
}
