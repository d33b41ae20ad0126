package shardedlistprom

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/survey"
)

// surveyFor is how long a survey may take, a little less than Prometheus waits by default.
const surveyFor = 9 * time.Second

// NewServerCollector returns a collector of what the servers know of the lists whose names match the pattern, which is as for KEYS: their
// lengths, shards, memory, and so on, and the jobs of queues. An empty pattern is all lists. Register it in one process, not in each.
//
// Each scrape scans the keys of the servers, in short steps that do not hold them, and looks at every list. If lists are many, scrape
// seldom. Scrapes at once wait for each other.
func NewServerCollector(rdb redis.UniversalClient, pattern string) prometheus.Collector {
	c := &serverCollector{rdb: rdb, pattern: pattern}
	for _, m := range survey.Metrics {
		labels := []string{"list"}
		if m.Label != "" {
			labels = append(labels, m.Label)
		}
		c.descs = append(c.descs, prometheus.NewDesc(m.Name, m.Help, labels, nil))
	}
	return c
}

type serverCollector struct {
	rdb     redis.UniversalClient
	pattern string
	descs   []*prometheus.Desc // of survey.Metrics, in their order

	scraping sync.Mutex
}

// Describe implements prometheus.Collector.
func (c *serverCollector) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range c.descs {
		descs <- desc
	}
}

// Collect implements prometheus.Collector. If the survey fails, so does the scrape: part of the lists would look like all.
func (c *serverCollector) Collect(samples chan<- prometheus.Metric) {
	c.scraping.Lock()
	defer c.scraping.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), surveyFor)
	defer cancel()
	for row, err := range survey.Rows(ctx, c.rdb, survey.Options{Match: c.pattern}) {
		if err != nil {
			samples <- prometheus.NewInvalidMetric(c.descs[0], err)
			return
		}
		c.collect(row, samples)
	}
}

func (c *serverCollector) collect(row survey.Row, samples chan<- prometheus.Metric) {
	for i, m := range survey.Metrics {
		if row.Again && m.Name != survey.StrayShards {
			continue // the first row of the list had it
		}
		kind := prometheus.GaugeValue
		if m.Counter {
			kind = prometheus.CounterValue
		}
		for _, s := range m.Samples(row) {
			labels := []string{survey.Label(row.Name)}
			if m.Label != "" {
				labels = append(labels, s.Label)
			}
			samples <- prometheus.MustNewConstMetric(c.descs[i], kind, s.Value, labels...)
		}
	}
}
