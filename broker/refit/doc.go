// Package refit joins the lists of package agentlifecycle to the broker's own parts: nodes and
// their tasks, releases, and the turnover by which a node is reimaged.
package refit
