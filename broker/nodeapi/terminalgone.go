package nodeapi

import "github.com/hostler/hostler/taskcatalog/wire"

// terminalGone takes a node's word that the process of a terminal session of its own was
// killed. Whichever broker has the session ends it: by itself that one would see only that
// the node is silent, and wait for it.
func (a *API) terminalGone(c *call) (any, error) {
	var said wire.TerminalGone
	if err := c.decode(&said); err != nil {
		return nil, err
	}
	return nil, inAudit(a.c.DB.TerminalGone(c.r.Context(), c.peer.NodeID, c.peer.Epoch, c.r.PathValue("session_id"), said.How))
}
