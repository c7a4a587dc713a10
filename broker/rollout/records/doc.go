// Package records joins the chain of package rollout to the broker's own parts: nodes, releases,
// and the runs that deliver a release to a node. Nodes implements rollout.Nodes. The package
// decides nothing about a rollout.
package records
