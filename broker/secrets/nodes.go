package secrets

import "github.com/hostler/hostler/broker"

// nodeToken is where a node's own MAAS token is, until its site knows it.
func nodeToken(nodeID string) string { return "nodes/" + nodeID + "/maas-machine-token" }

// PutNodeToken keeps the token that node.hw_sync_reseed gives its node.
func (f *Files) PutNodeToken(nodeID string, token []byte) error {
	return f.Put(nodeToken(nodeID), token)
}

// ForgetNode removes what is kept for a node.
func (f *Files) ForgetNode(nodeID string) error { return f.Delete(nodeToken(nodeID)) }

func ofNode(t broker.Task) string { return nodeToken(t.NodeID) }
