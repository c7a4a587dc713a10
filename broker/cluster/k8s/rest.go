package k8s

import (
	"bytes"
	"cmp"
	"context"
	"net/http"

	"github.com/go-json-experiment/json"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/cluster"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

const (
	// maxAnswer bounds an answer, in bytes. A pod has up to 1.5 MiB, and 20 KiB as a rule.
	maxAnswer = 4 << 20
	// maxCauses bounds the causes of a failure.
	maxCauses = 16

	plainJSON  = "application/json"
	mergePatch = "application/merge-patch+json"
)

// rest sends requests to an API server.
type rest struct {
	cluster, base, token string
	http                 *cluster.Client
}

func newREST(c broker.Cluster, token string) *rest {
	return &rest{cluster: c.Name, base: c.URL, token: token, http: cluster.NewClient(c, maxAnswer)}
}

// typed is how every object of the API begins.
type typed struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

// metadata is the part of an object's metadata that is read.
type metadata struct {
	Name            string            `json:"name"`
	Namespace       string            `json:"namespace"`
	UID             string            `json:"uid"`
	ResourceVersion string            `json:"resourceVersion"`
	Labels          map[string]string `json:"labels"`
	Annotations     map[string]string `json:"annotations"`
	// DeletionTimestamp is when an object that is being deleted has no time left.
	DeletionTimestamp string `json:"deletionTimestamp"`
	OwnerReferences   []struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Controller bool   `json:"controller"`
	} `json:"ownerReferences"`
}

// status is the API's object that says how a request has ended.
type status struct {
	typed
	Status  string `json:"status"` // Success or Failure
	Message string `json:"message"`
	Reason  string `json:"reason"`
	Details struct {
		Name   string `json:"name"`
		Kind   string `json:"kind"` // of the resource: nodes
		Causes []struct {
			Reason  string `json:"reason"`
			Message string `json:"message"`
		} `json:"causes"`
	} `json:"details"`

	code int // of HTTP
}

// about reports whether a status gives a reason, about one object.
func (s *status) about(reason, resource, name string) bool {
	return s.Reason == reason && s.Details.Kind == resource && s.Details.Name == name
}

// cause returns the message of a cause.
func (s *status) cause(reason string) (message string, ok bool) {
	for _, c := range s.Details.Causes {
		if c.Reason == reason {
			return c.Message, true
		}
	}
	return "", false
}

// ownLimit is how the API server itself begins to say that it has too many requests. A webhook may deny a
// request with the same status, in its own words.
var ownLimit = lazyregexp.New(`(?i)^(too many requests|the server has received too many requests|storage is \(re\)initializing)|^$`)

// busy reports whether the server has too many requests, as it says in plain text or in a status.
func (s *status) busy() bool {
	return s.code == http.StatusTooManyRequests &&
		(s.Kind == "" || s.Reason == "TooManyRequests" && len(s.Details.Causes) == 0 && ownLimit.MatchString(s.Message))
}

// words are why a request failed.
func (s *status) words() string { return cmp.Or(s.Message, s.Reason, http.StatusText(s.code)) }

// ask sends a request. It returns nil and fills want if it went well, and else what the API says of it.
// Codes: cluster_unreachable, cluster_answer_invalid, cluster_token_refused.
func (r *rest) ask(ctx context.Context, method, path, contentType string, body, want any) (*status, error) {
	var raw []byte
	if body != nil {
		var err error
		if raw, err = json.Marshal(body); err != nil {
			return nil, err
		}
		defer clear(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, r.base+path, bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+r.token)
	req.Header.Set("Accept", plainJSON)
	if body != nil {
		req.Header.Set("Content-Type", contentType)
	}
	res, err := r.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer clear(res.Body)
	switch {
	case res.Status == http.StatusUnauthorized:
		return nil, broker.Errorf(broker.Refused, "cluster_token_refused",
			"cannot use cluster %s: it refuses the token, which may have expired (make one with kubectl create token, and set it: hostler help cluster set)", r.cluster)
	case res.Status == http.StatusTooManyRequests && !res.JSON(): // the server's own limits answer in plain text
		return &status{code: res.Status, Message: "it has too many requests"}, nil
	case !res.JSON():
		return nil, r.http.Invalid("is not JSON: the server may be no API server of Kubernetes")
	case res.Status >= http.StatusOK && res.Status < http.StatusMultipleChoices:
		if json.Unmarshal(res.Body, want) != nil {
			return nil, r.http.Invalid("is not an object of Kubernetes")
		}
		return nil, nil
	}
	s := status{code: res.Status}
	if json.Unmarshal(res.Body, &s) != nil || s.Kind != "Status" || s.Status != "Failure" || len(s.Details.Causes) > maxCauses {
		return nil, r.http.Invalid("is not a status of Kubernetes")
	}
	return &s, nil
}

// said is the error of a request that failed. Code: cluster_refused.
func (r *rest) said(s *status) error {
	return broker.Errorf(broker.Refused, "cluster_refused", "cluster %s refuses: %s", r.cluster, taskcatalog.Clean(s.words(), 300))
}

// options are the conditions of a deletion.
type options struct {
	typed
	Grace         *int          `json:"gracePeriodSeconds,omitempty"`
	Preconditions preconditions `json:"preconditions,omitzero"`
}

type preconditions struct {
	UID             string `json:"uid,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
}

// remove deletes an object. What is not there, or is being deleted, is no failure.
func (r *rest) remove(ctx context.Context, path, resource, name string, o options) error {
	o.typed = typed{"v1", "DeleteOptions"}
	s, err := r.ask(ctx, http.MethodDelete, path, plainJSON, o, &typed{}) // the object, or a status
	if err != nil || s == nil || s.code == http.StatusNotFound && s.about("NotFound", resource, name) {
		return err
	}
	return r.said(s)
}
