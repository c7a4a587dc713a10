package k8s

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/cluster"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

const (
	// note is the annotation that says since when and why a node is drained.
	note = "hostler.dev/drain"
	// maxEvictions bounds the pods that one order evicts, and orderTime its time.
	maxEvictions, orderTime = 16, 20 * time.Second
	// overdue is how long a pod may stay after its own grace has ended: then no kubelet ends it.
	overdue = time.Minute
)

// budget finds the name of a PodDisruptionBudget in the cause of a refused eviction.
var budget = lazyregexp.New(`^The disruption budget ([a-z0-9][a-z0-9.-]{0,252}) `)

// noted is what the annotation of a node says; zero and empty: it says nothing.
func (n *node) noted() (since time.Time, reason string) {
	at, reason, _ := strings.Cut(n.Metadata.Annotations[note], " ")
	since, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return time.Time{}, ""
	}
	return since, taskcatalog.Clean(reason, maxReason)
}

// Drain implements cluster.Adapter: it cordons the node, and evicts pods.
func (c *Cluster) Drain(ctx context.Context, of cluster.Node, order cluster.DrainOrder) (cluster.Membership, error) {
	name := of.Name
	if order.Reason = strings.TrimSpace(taskcatalog.Clean(order.Reason, maxReason)); order.Reason == "" {
		return cluster.Membership{}, broker.Errorf(broker.Invalid, "reason_missing", "cannot drain %s of cluster %s: no reason is given", name, c.name)
	}
	ctx, cancel := context.WithTimeout(ctx, orderTime)
	defer cancel()
	n, is, err := c.known(ctx, "drain", of)
	if err != nil {
		return cluster.Membership{}, err
	}
	since, reason := n.noted()
	if !n.Spec.Unschedulable || reason != order.Reason || since.After(order.At) {
		since = order.At
		if is, err = c.cordon(ctx, of, n, order); err != nil {
			return cluster.Membership{}, err
		}
	}
	pods, err := c.work(ctx, name)
	switch {
	case err != nil:
		return cluster.Membership{}, err
	case len(pods) == 0:
		is.State = cluster.Drained
		return is, nil
	}
	e := eviction{c: c, at: order.At, force: order.ForceAfter > 0 && !order.At.Before(since.Add(order.ForceAfter))}
	switch err := e.all(ctx, pods); {
	case err != nil && len(e.cut) == 0:
		return cluster.Membership{}, err
	case err != nil: // what was cut off must be told all the same
		e.blocked = err.Error()
	}
	is.Words = taskcatalog.Clean(is.Words+e.words(len(pods)), maxWords)
	is.Cut = e.cut
	return is, nil
}

// cordon keeps new pods from the node, and notes why and since when. The node must be cordoned in the
// answer, and still be this one.
func (c *Cluster) cordon(ctx context.Context, of cluster.Node, was *node, order cluster.DrainOrder) (cluster.Membership, error) {
	patch := map[string]any{
		"metadata": map[string]any{
			"uid":         was.Metadata.UID,
			"annotations": map[string]string{note: order.At.UTC().Format(time.RFC3339) + " " + order.Reason},
		},
		"spec": map[string]any{"unschedulable": true},
	}
	var n node
	s, err := c.rest.ask(ctx, http.MethodPatch, nodePath(was.Metadata.Name), mergePatch, patch, &n)
	if err == nil && s != nil {
		err = c.rest.said(s)
	}
	if err != nil {
		return cluster.Membership{}, err
	}
	is := judge(&n, of)
	if is.State != cluster.Draining || n.Metadata.UID != was.Metadata.UID {
		return cluster.Membership{}, c.not("drain", was.Metadata.Name, is)
	}
	return is, nil
}

// eviction is one order to the pods of a node.
type eviction struct {
	c     *Cluster
	at    time.Time
	force bool

	cut     []string // pods that were cut off
	blocked string   // the first thing that keeps a pod
	busy    bool     // the server has too many requests
}

// all evicts pods, as many as one order may.
func (e *eviction) all(ctx context.Context, pods []pod) error {
	orders := 0
	for i := range pods {
		p := &pods[i]
		until, ending := p.ending()
		stuck := ending && !until.IsZero() && e.at.Sub(until) >= overdue
		switch {
		case ending && (!e.force || !stuck):
			continue
		case !ending && !e.force && !p.controlled():
			e.keeps("pod " + p.name() + " has no controller")
			continue
		}
		if orders++; orders > maxEvictions || e.busy {
			return nil
		}
		if err := e.one(ctx, p, stuck); err != nil {
			return err
		}
	}
	return nil
}

// one evicts a pod, or cuts it off if that is refused and the time is over.
func (e *eviction) one(ctx context.Context, p *pod, stuck bool) error {
	if !stuck {
		goes, why, err := e.evict(ctx, p)
		switch {
		case err != nil || e.busy:
			return err
		case why == "":
			if goes && !p.controlled() { // nothing starts it again
				e.cut = append(e.cut, p.name())
			}
			return nil
		case !e.force:
			e.keeps(why)
			return nil
		}
	}
	return e.end(ctx, p, stuck)
}

// end deletes a pod; stuck: without grace. A pod that has gone or is another by now is not cut off.
func (e *eviction) end(ctx context.Context, p *pod, stuck bool) error {
	o := options{typed: typed{"v1", "DeleteOptions"}, Preconditions: preconditions{UID: p.Metadata.UID}}
	if stuck {
		o.Grace = new(int)
	}
	s, err := e.c.rest.ask(ctx, http.MethodDelete, p.path(), plainJSON, o, &typed{}) // the pod, or a status
	switch {
	case err != nil:
		return err
	case s == nil:
		e.cut = append(e.cut, p.name())
	case s.gone(p):
	case s.busy():
		e.isBusy()
	default:
		e.keeps("pod " + p.name() + " cannot be deleted: " + s.words())
	}
	return nil
}

// gone reports whether a refusal says that the pod has gone, or is another by now: of a precondition that does not
// hold the API server says which kind of object it is about, and of a conflict in its store which resource. A webhook
// may deny with any status, so the status alone says neither.
func (s *status) gone(p *pod) bool {
	name := p.Metadata.Name
	return s.code == http.StatusNotFound && s.about("NotFound", "pods", name) ||
		s.code == http.StatusConflict && (s.about("Conflict", "Pod", name) || s.about("Conflict", "pods", name))
}

// evict asks for the eviction of a pod, and returns why it is refused. Neither goes nor why: it ends without
// this order. The API server accepts an eviction with 201 and may say in the same answer that it fails.
func (e *eviction) evict(ctx context.Context, p *pod) (goes bool, why string, err error) {
	type named struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	}
	var got status
	s, err := e.c.rest.ask(ctx, http.MethodPost, p.path()+"/eviction", plainJSON, struct {
		typed
		Metadata named   `json:"metadata"`
		Options  options `json:"deleteOptions"`
	}{
		typed{"policy/v1", "Eviction"},
		named{p.Metadata.Name, p.Metadata.Namespace},
		options{typed: typed{"v1", "DeleteOptions"}, Preconditions: preconditions{UID: p.Metadata.UID}},
	}, &got)
	switch {
	case err != nil:
		return false, "", err
	case s == nil && got.Kind == "Status" && got.Status == "Success":
		return true, "", nil
	case s == nil && (got.Kind != "Status" || got.Status != "Failure"):
		return false, "", e.c.rest.http.Invalid("to an eviction is not understood")
	case s == nil:
		s = &got
	}
	_, ending := s.cause("NamespaceTerminating")
	cause, budgeted := s.cause("DisruptionBudget")
	switch {
	case ending, s.gone(p):
		return false, "", nil // it goes, has gone, or is another by now: the next list says which
	case budgeted:
		if m := budget.FindStringSubmatch(cause); m != nil {
			return false, "PodDisruptionBudget " + p.Metadata.Namespace + "/" + m[1] + " keeps pod " + p.name(), nil
		}
		return false, "a PodDisruptionBudget keeps pod " + p.name() + ": " + cause, nil
	case s.busy():
		e.isBusy()
		return false, "", nil
	}
	return false, "pod " + p.name() + ": " + s.words(), nil // such as a denial by a webhook: of this pod alone
}

func (e *eviction) isBusy() {
	e.busy = true
	e.keeps("the API server has too many requests")
}

func (e *eviction) keeps(why string) {
	if e.blocked == "" {
		e.blocked = why
	}
}

// words are what is told of an order, beside the words of the node.
func (e *eviction) words(pods int) string {
	words := fmt.Sprintf("; pods: %d", pods)
	if len(e.cut) > 0 {
		words += fmt.Sprintf(", cut off: %d", len(e.cut))
	}
	if e.blocked != "" {
		words += "; " + e.blocked
	}
	return words
}
