package nodeapi

import "github.com/hostler/hostler/taskcatalog/wire"

// terminalGone records a node's report that the process of one of its terminal sessions was killed.
// The broker that has the session then ends it. Without the report that broker would only see a
// silent node, and wait for the node.
func (a *API) terminalGone(c *call) (any, error) {
	var said wire.TerminalGone
	if err := c.decode(&said); err != nil {
		return nil, err
	}
	return nil, inAudit(a.c.DB.TerminalGone(c.r.Context(), c.peer.NodeID, c.peer.Epoch, c.r.PathValue("session_id"), said.How))
}
