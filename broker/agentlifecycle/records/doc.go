// Package records joins the lists of package agentlifecycle to the broker's own parts: nodes and
// their tasks, releases, and the turnover of a reimage. Nodes implements agentlifecycle.Nodes;
// Fleet tells which release a node shall have. The package decides nothing about a run.
package records
