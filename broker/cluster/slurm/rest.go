package slurm

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/cluster"
	"github.com/hostler/hostler/taskcatalog"
)

const (
	// maxAnswer bounds an answer, in bytes: slurmrestd tells about 3 KiB of a node.
	maxAnswer = 256 << 10
	// maxErrors bounds the errors of an answer.
	maxErrors = 16
)

// versions are the versions of the API that the adapter speaks, the newest first. Slurm 23.11 has the
// oldest, and each release has three or more.
var versions = []string{"v0.0.42", "v0.0.40"}

// rest sends requests to a slurmrestd.
type rest struct {
	cluster, base, token string
	http                 *cluster.Client
}

// answer is the part of an answer that is read.
type answer struct {
	Nodes []struct {
		Name   string   `json:"name"`
		State  []string `json:"state"`
		Reason string   `json:"reason"`
	} `json:"nodes"`
	Errors []struct {
		Number      int    `json:"error_number"`
		Error       string `json:"error"`
		Description string `json:"description"`
	} `json:"errors"`
}

// unknownNode reports whether the answer says that there is no such node, and nothing else.
func (a *answer) unknownNode(node string) bool {
	for _, e := range a.Errors {
		if e.Number != unknownNode && (e.Number != noError || e.Description != "Failure to query node "+node) {
			return false
		}
	}
	return len(a.Errors) > 0
}

func newREST(c broker.Cluster, token string) *rest {
	return &rest{cluster: c.Name, base: c.URL, token: token, http: cluster.NewClient(c, maxAnswer)}
}

// get asks for a node.
func (r *rest) get(ctx context.Context, node string) (*answer, error) {
	status, a, err := r.ask(ctx, http.MethodGet, nodePath(node), nil)
	switch {
	case err != nil:
		return nil, err
	case status == http.StatusOK, a.unknownNode(node):
		return a, nil
	}
	return nil, r.said(a)
}

// recount has the controller count again what jobs have of every node. It does so only when it is asked
// for all nodes: until then a node whose last job has ended may stay MIXED in answers about that node
// alone. Asked for what has changed since a time to come, it counts, and tells nothing.
func (r *rest) recount(ctx context.Context) error {
	status, a, err := r.ask(ctx, http.MethodGet, "/nodes/?update_time=uts4102444800", nil)
	if err == nil && status != http.StatusNotModified && status != http.StatusOK {
		err = r.said(a)
	}
	return err
}

func nodePath(node string) string { return "/node/" + url.PathEscape(node) }

func (r *rest) drain(ctx context.Context, node, reason string) error {
	body, err := json.Marshal(map[string]any{"state": []string{"DRAIN"}, "reason": reason})
	if err != nil {
		return err
	}
	return r.order(ctx, http.MethodPost, node, body)
}

func (r *rest) remove(ctx context.Context, node string) error {
	return r.order(ctx, http.MethodDelete, node, nil)
}

func (r *rest) order(ctx context.Context, method, node string, body []byte) error {
	status, a, err := r.ask(ctx, method, nodePath(node), body)
	if err == nil && (status != http.StatusOK || len(a.Errors) > 0) {
		err = r.said(a)
	}
	return err
}

// said is the error of an answer in which Slurm says what is wrong. Code: cluster_refused.
func (r *rest) said(a *answer) error {
	why := "without a reason"
	if len(a.Errors) > 0 {
		why = taskcatalog.Clean(a.Errors[0].Description+": "+a.Errors[0].Error, 300)
	}
	return broker.Errorf(broker.Refused, "cluster_refused", "cluster %s refuses: %s", r.cluster, why)
}

// ask sends a request in the first version that the server has. Codes: cluster_unreachable,
// cluster_token_refused, cluster_version_unsupported, cluster_answer_invalid.
func (r *rest) ask(ctx context.Context, method, path string, body []byte) (int, *answer, error) {
	for _, version := range versions {
		status, a, err := r.send(ctx, method, r.base+"/slurm/"+version+path, body)
		if status != http.StatusNotFound || err != nil {
			return status, a, err
		}
	}
	return 0, nil, broker.Errorf(broker.Refused, "cluster_version_unsupported",
		"cannot use cluster %s: its slurmrestd has no version %s or %s of the API (use Slurm 23.11 or later)", r.cluster, versions[1], versions[0])
}

// send sends one request. The status 404 without an answer of Slurm means that the server has not this
// version.
func (r *rest) send(ctx context.Context, method, address string, body []byte) (int, *answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("X-SLURM-USER-TOKEN", r.token)
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := r.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	var a answer
	switch {
	case refused(res.Status):
		return 0, nil, broker.Errorf(broker.Refused, "cluster_token_refused",
			"cannot use cluster %s: it refuses the token, which may have expired (make one with scontrol token, and set it: hostler help cluster set)", r.cluster)
	case res.Status == http.StatusNotFound && !res.JSON():
		return res.Status, nil, nil
	case res.Status == http.StatusNotModified:
		return res.Status, &answer{}, nil
	case !res.JSON():
		return 0, nil, r.http.Invalid("is not JSON: the server may be no slurmrestd")
	case json.Unmarshal(res.Body, &a) != nil || len(a.Errors) > maxErrors:
		return 0, nil, r.http.Invalid("is not an answer of slurmrestd")
	}
	return res.Status, &a, nil
}

// refused reports whether a status is of a token that is not accepted. A controller that slurmrestd
// passes the token to is one network further.
func refused(status int) bool {
	return slices.Contains([]int{http.StatusUnauthorized, http.StatusForbidden, http.StatusNetworkAuthenticationRequired}, status)
}
