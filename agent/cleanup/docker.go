package cleanup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

const (
	DockerUnit   = "docker.service"
	dockerSocket = "/run/docker.sock"
)

// takeDownTime is the time an engine gets to remove the networks and rules of its containers. A
// slow engine must not be cut short: firewall rules left behind belong to nobody, and only a
// reimage removes them.
const takeDownTime = time.Minute

// dockerCleanup has a running dockerd remove its containers and networks. Only dockerd knows
// which bridges and firewall rules belong to them: once the root is emptied, the rules would stay.
// dockerd's answer is not trusted: the root is emptied and the machine checked afterwards all the
// same.
func (c *cleanup) dockerCleanup(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, takeDownTime)
	defer cancel()
	docker := &dockerAPI{http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return c.m.DialSocket(ctx, dockerSocket)
		},
	}}}
	// A swarm would start removed containers again. Most engines are in no swarm.
	swarm := docker.call(ctx, http.MethodPost, "/swarm/leave?force=1", nil)
	if errors.As(swarm, new(*dockerRefusal)) {
		swarm = nil
	}
	all := swarm
	for _, kind := range []struct{ list, one, options string }{
		{"/containers/json?all=1", "/containers/", "?force=1&v=1"},
		{"/networks?filters=" + url.QueryEscape(`{"type":["custom"]}`), "/networks/", ""},
	} {
		var found []struct{ ID string }
		if err := docker.call(ctx, http.MethodGet, kind.list, &found); err != nil {
			return errors.Join(all, err)
		}
		for _, f := range found {
			if ctx.Err() != nil {
				return errors.Join(all, context.Cause(ctx))
			}
			if err := docker.call(ctx, http.MethodDelete, kind.one+url.PathEscape(f.ID)+kind.options, nil); err != nil {
				all = errors.Join(all, err)
			}
		}
	}
	return all
}

type dockerAPI struct{ http.Client }

// dockerRefusal is an answer with an error status.
type dockerRefusal struct{ call, status string }

func (e *dockerRefusal) Error() string { return e.call + ": " + e.status }

// call sends a request to dockerd and decodes the answer into out. The answer is untrusted.
func (d *dockerAPI) call(ctx context.Context, method, path string, out any) error {
	const limit = 16 << 20
	what := "docker " + method + " " + taskcatalog.Clean(path, 120)
	req, err := http.NewRequestWithContext(ctx, method, "http://docker"+path, nil)
	if err != nil {
		return err
	}
	resp, err := d.Do(req)
	if err != nil {
		return fmt.Errorf("%s: %w", what, errors.Unwrap(err))
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		return &dockerRefusal{what, fmt.Sprint(resp.StatusCode)}
	}
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, limit)).Decode(out); err != nil {
		return fmt.Errorf("%s: cannot read the answer: %w", what, err)
	}
	return nil
}
