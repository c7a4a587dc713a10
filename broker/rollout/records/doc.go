// Package records joins the chain of package rollout to the broker's own parts: nodes, releases
// and the runs that give a node its release. It decides nothing about a rollout.
package records
