package ray

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/go-json-experiment/json"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/cluster"
	"github.com/hostler/hostler/taskcatalog"
)

const (
	// maxAnswer bounds an answer, in bytes: Ray tells less than 2 KiB of a node.
	maxAnswer = 256 << 10
	// most is how many nodes of one name are asked for. There is one, or the answer is of no use.
	most = 16
)

// rest sends requests to a dashboard.
type rest struct {
	cluster, base, token string
	client               *cluster.Client
}

// answer is the part of an answer that is read.
type answer struct {
	OK   *bool  `json:"result"`
	Said string `json:"msg"`
	Data struct {
		List *list `json:"result"`
	} `json:"data"`
}

// list is a list of nodes.
type list struct {
	Fitting  *int     `json:"num_filtered"` // how many fit the filters, before the limit
	Result   []record `json:"result"`
	Partial  string   `json:"partial_failure_warning"`
	Warnings []string `json:"warnings"`
}

// record is what Ray says of a node.
type record struct {
	ID    string `json:"node_id"`
	Name  string `json:"node_name"`
	State string `json:"state"`
	Head  *bool  `json:"is_head_node"`

	Labels map[string]any `json:"labels"`
}

// whole reports whether nothing was left out of the list.
func (l *list) whole() bool {
	return l.Fitting != nil && *l.Fitting == len(l.Result) && l.Partial == "" && len(l.Warnings) == 0
}

func newREST(c broker.Cluster, token string) *rest {
	return &rest{cluster: c.Name, base: c.URL, token: token, client: cluster.NewClient(c, maxAnswer)}
}

// alive asks for the nodes of a name that are alive. Codes: those of send, cluster_refused,
// cluster_answer_invalid.
func (r *rest) alive(ctx context.Context, node string) (*list, error) {
	res, err := r.send(ctx, url.Values{
		"filter_keys": {"node_name", "state"}, "filter_predicates": {"=", "="}, "filter_values": {node, alive}, "limit": {strconv.Itoa(most)},
	}, r.token)
	if err != nil {
		return nil, err
	}
	var a answer
	switch {
	case res.Status == http.StatusUnauthorized || res.Status == http.StatusForbidden:
		return nil, broker.Errorf(broker.Refused, "cluster_token_refused",
			"cannot use cluster %s: it refuses the token (set it with the one in the head's RAY_AUTH_TOKEN_PATH: hostler help cluster set)", r.cluster)
	case !res.JSON():
		return nil, r.client.Invalid("is not JSON: the server may be no dashboard of Ray")
	case json.Unmarshal(res.Body, &a) != nil || a.OK == nil:
		return nil, r.client.Invalid("is not an answer of Ray's state API")
	case !*a.OK || res.Status != http.StatusOK:
		return nil, broker.Errorf(broker.Refused, "cluster_refused",
			"cluster %s refuses: %s", r.cluster, taskcatalog.Clean(a.Said, 300))
	case a.Data.List == nil || a.Data.List.Result == nil:
		return nil, r.client.Invalid("has no list of nodes")
	}
	return a.Data.List, nil
}

// protected reports an error unless the dashboard refuses a request without the token. Codes: those of
// send, cluster_unprotected.
func (r *rest) protected(ctx context.Context) error {
	res, err := r.send(ctx, url.Values{"limit": {"1"}}, "")
	if err != nil {
		return err
	}
	if res.Status != http.StatusUnauthorized && res.Status != http.StatusForbidden {
		return broker.Errorf(broker.Refused, "cluster_unprotected",
			"no node can join cluster %s: it does not refuse requests without the token, so whoever reaches it can run code on its nodes "+
				"(start the head with RAY_AUTH_MODE=token, in Ray 2.52 or later)", r.cluster)
	}
	return nil
}

// send asks for nodes. Codes: those of cluster.Client.
func (r *rest) send(ctx context.Context, query url.Values, token string) (*cluster.Answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.base+"/api/v0/nodes?"+query.Encode(), nil)
	if err != nil {
		return nil, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	req.Header.Set("Accept", "application/json")
	return r.client.Do(req)
}
