package web

import (
	"net/http"

	"github.com/shardedlist/shardedlist/internal/survey"
)

// metrics replies with what the survey knows, for Prometheus. Who scrapes is a viewer. While the server does not answer, or it is not
// known which lists there are, the scrape fails: old numbers, or those of some lists, would look like those of all.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) {
	s.feed.view()
	if err := s.feed.fresh(r.Context()); err != nil {
		reply(w, nil, failure{http.StatusServiceUnavailable, err})
		return
	}
	limitWrite(w)
	w.Header().Set("Content-Type", survey.ContentType)
	_ = survey.WriteMetrics(w, s.feed.all())
}
