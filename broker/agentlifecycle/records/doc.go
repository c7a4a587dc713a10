// Package records joins the lists of package agentlifecycle to the broker's own parts:
// nodes and their tasks, releases, and the turnover by which a node is reimaged. It says
// which release a node shall have (Fleet), and decides nothing about a run.
package records
