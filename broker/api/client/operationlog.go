package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
)

// OperationLogEvent is an event of the log of an operation. Of a project's operation, Line lacks what only the
// platform reads.
type OperationLogEvent = api.OperationLogEvent[api.PlatformOperationLine]

// OperationLogFilter selects the log that FollowOperationLog follows.
type OperationLogFilter struct {
	Project   string // empty: as the platform sees it
	Operation string
	Step      string // only rows of this step; empty: of all
	After     string // cursor: the id of a row; empty: from the first
}

// FollowOperationLog calls got with each row of an operation, in order, with the steps that its nodes come to, and
// last with its end. A connection that breaks is made again after the last row; lost gets why it broke. The command
// gives up when the broker stays away for a minute. An error of got ends the stream.
func (c *Client) FollowOperationLog(ctx context.Context, f OperationLogFilter, got func(OperationLogEvent) error, lost func(error)) error {
	for {
		var ended bool
		err := c.retry(ctx, waitPatience, 0, func() (again bool, err error) {
			var opened bool
			opened, ended, err = c.operationLog(ctx, &f, got)
			if opened || !absent(err) {
				return false, err
			}
			lost(err)
			return true, err
		})
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case ended || err != nil && !absent(err):
			return err
		case err != nil:
			lost(err)
		}
		if err := sleep(ctx, c.opts.Backoff); err != nil {
			return err
		}
	}
}

// operationLog reads one stream, and records in f how far it has come. ended: it brought the operation's end.
func (c *Client) operationLog(
	ctx context.Context, f *OperationLogFilter, got func(OperationLogEvent) error,
) (opened, ended bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	alive := time.AfterFunc(silent, cancel)
	defer alive.Stop()
	path := at("operations", f.Operation, "logs")
	if f.Project != "" {
		path = at("projects", f.Project, "operations", f.Operation, "logs")
	}
	q := query("follow", "true", "step_id", f.Step, "cursor", f.After)
	res, err := c.send(ctx, call{method: http.MethodGet, path: path, query: q}, http.NoBody)
	if err != nil {
		return false, false, err
	}
	defer func() { _ = res.Body.Close() }()
	err = readEvents(res.Body, func(id string, data []byte) error {
		alive.Reset(silent)
		if data == nil {
			return nil
		}
		var e OperationLogEvent
		if err := json.Unmarshal(data, &e); err != nil {
			return broker.Errorf(broker.Internal, "answer_malformed",
				"cannot read the log of %s: it is not what this version of hostler expects (compare hostler version with hostler status)", f.Operation)
		}
		if err := got(e); err != nil {
			return err
		}
		if id != "" {
			f.After = id
		}
		ended = e.End != nil
		return nil
	})
	if _, own := errors.AsType[*broker.Error](err); err != nil && !own {
		err = broker.Errorf(broker.Unavailable, "log_interrupted", "cannot read further rows: the connection to %s broke", c.opts.Broker)
	}
	return true, ended, err
}
