package adminapi

import (
	"context"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

const maxLabels = 64

var (
	labelKey   = lazyregexp.New(`^[a-z0-9]([a-z0-9._/-]{0,61}[a-z0-9])?$`)
	labelValue = lazyregexp.New(`^[A-Za-z0-9]?([A-Za-z0-9._:/@+-]{0,127})$`)
)

type labelsInput struct {
	NodeInput
	Body api.Labels
}

func (a *API) labelNode(ctx context.Context, in *labelsInput) (*api.Node, error) {
	if err := checkLabels(in.Body.Labels); err != nil {
		return nil, err
	}
	ctx = withReason(ctx, in.Body.Reason)
	n, err := a.node(ctx, in.Node)
	if err != nil {
		return nil, err
	}
	if n, err = a.c.DB.SetLabels(ctx, callerOf(ctx).actor(), n.ID, in.Body.Labels); err != nil {
		return nil, err
	}
	out := a.changedNode(ctx, n)
	return &out, nil
}

// checkLabels refuses labels that a selector could not name. Code: label_invalid.
func checkLabels(labels map[string]string) error {
	if len(labels) > maxLabels {
		return broker.Errorf(broker.Invalid, "label_invalid", "cannot set %d labels: at most %d", len(labels), maxLabels)
	}
	for k, v := range labels {
		if !labelKey.MatchString(k) {
			return broker.Errorf(broker.Invalid, "label_invalid",
				"cannot set label %q: a key is up to 63 of a-z, 0-9, '.', '_', '/' and '-'", taskcatalog.Clean(k, 80))
		}
		if !labelValue.MatchString(v) {
			return broker.Errorf(broker.Invalid, "label_invalid",
				"cannot set label %s: its value has characters that are not allowed in selectors", k)
		}
	}
	return nil
}

// labelFilter reads labels of a filter, each key=value. Code: label_invalid.
func labelFilter(list []string) (map[string]string, error) {
	out := map[string]string{}
	for _, l := range list {
		k, v, ok := strings.Cut(l, "=")
		if !ok || k == "" {
			return nil, broker.Errorf(broker.Invalid, "label_invalid", "cannot filter by label %q: write key=value",
				taskcatalog.Clean(l, 100))
		}
		out[k] = v
	}
	return out, nil
}
