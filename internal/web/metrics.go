package web

import (
	"net/http"

	"github.com/shardedlist/shardedlist/internal/survey"
)

// metrics replies with what the survey knows, for Prometheus. Who scrapes is a viewer. Until the first survey has ended, the scrape fails:
// numbers of some lists would look like those of all.
func (s *Server) metrics(w http.ResponseWriter, _ *http.Request) {
	s.feed.view()
	if s.feed.state().Ended == 0 {
		reply(w, nil, fail(http.StatusServiceUnavailable, "the first survey has not ended yet"))
		return
	}
	w.Header().Set("Content-Type", survey.ContentType)
	_ = survey.WriteMetrics(w, s.feed.all())
}
