// Package agent joins the parts of a node's agent.
package agent
