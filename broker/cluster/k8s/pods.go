package k8s

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/hostler/hostler/broker"
)

// Bounds of a list: a kubelet runs 110 pods as a rule.
const (
	podsInPage, maxPages = 25, 40
	mirror               = "kubernetes.io/config.mirror"
)

// pod is the part of a pod that is read.
type pod struct {
	Metadata metadata `json:"metadata"`
	Spec     struct {
		NodeName string `json:"nodeName"`
	} `json:"spec"`
	Status struct {
		Phase string `json:"phase"`
	} `json:"status"`
}

type podList struct {
	typed
	Metadata struct {
		Continue string `json:"continue"`
	} `json:"metadata"`
	Items []pod `json:"items"`
}

func (p *pod) name() string { return p.Metadata.Namespace + "/" + p.Metadata.Name }

func (p *pod) path() string {
	return "/api/v1/namespaces/" + url.PathEscape(p.Metadata.Namespace) + "/pods/" + url.PathEscape(p.Metadata.Name)
}

// work reports whether a pod is work that the node must lose before it leaves: it has not ended, and does
// not belong to the node.
func (p *pod) work() bool {
	if _, is := p.Metadata.Annotations[mirror]; is {
		return false
	}
	for _, o := range p.Metadata.OwnerReferences {
		if o.Controller && o.Kind == "DaemonSet" && (o.APIVersion == "apps/v1" || o.APIVersion == "extensions/v1beta1") {
			return false
		}
	}
	return p.Status.Phase != "Succeeded" && p.Status.Phase != "Failed"
}

// controlled reports whether something would start the pod again elsewhere.
func (p *pod) controlled() bool {
	for _, o := range p.Metadata.OwnerReferences {
		if o.Controller {
			return true
		}
	}
	return false
}

// ending reports whether a pod is being deleted, and since when it has no time left.
func (p *pod) ending() (until time.Time, ending bool) {
	until, err := time.Parse(time.RFC3339, p.Metadata.DeletionTimestamp)
	return until, err == nil || p.Metadata.DeletionTimestamp != ""
}

// work lists the pods that a node must lose before it leaves. A list that ends in the middle, since the
// server has forgotten where it went on, is begun once more.
func (c *Cluster) work(ctx context.Context, node string) ([]pod, error) {
	for range 2 {
		all, again, err := c.list(ctx, node)
		if err != nil || !again {
			return all, err
		}
	}
	return nil, broker.Errorf(broker.Unavailable, "cluster_answer_invalid", "cannot use cluster %s: its list of pods ends in the middle (retry)", c.name)
}

func (c *Cluster) list(ctx context.Context, node string) (all []pod, again bool, err error) {
	query := url.Values{"fieldSelector": {"spec.nodeName=" + node}, "limit": {strconv.Itoa(podsInPage)}}
	for range maxPages {
		var page podList
		s, err := c.rest.ask(ctx, http.MethodGet, "/api/v1/pods?"+query.Encode(), "", nil, &page)
		switch {
		case err != nil:
			return nil, false, err
		case s != nil && s.code == http.StatusGone && query.Has("continue"):
			return nil, true, nil
		case s != nil:
			return nil, false, c.rest.said(s)
		case page.APIVersion != "v1" || page.Kind != "PodList" || len(page.Items) > podsInPage:
			return nil, false, c.rest.http.Invalid("is no page of pods")
		}
		for _, p := range page.Items {
			if p.Spec.NodeName != node || p.Metadata.Namespace == "" || p.Metadata.Name == "" || p.Metadata.UID == "" {
				return nil, false, c.rest.http.Invalid("has pods that are not on the node")
			}
			if p.work() {
				all = append(all, p)
			}
		}
		if page.Metadata.Continue == "" {
			return all, false, nil
		}
		query.Set("continue", page.Metadata.Continue)
	}
	return nil, false, c.rest.http.Invalid("has too many pods on one node")
}
