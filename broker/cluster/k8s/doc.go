// Package k8s is the adapter of Kubernetes clusters. The main type is Cluster, a cluster.Adapter. It
// speaks to the API server with a bearer token, by plain REST: five kinds of requests need no client
// library.
//
// # What is asked
//
//	Membership  GET    /api/v1/nodes/NAME
//	            GET    /api/v1/pods?fieldSelector=spec.nodeName=NAME   of a node that is cordoned
//	Join        POST   /api/v1/namespaces/kube-system/secrets          a bootstrap token
//	Joined      DELETE /api/v1/namespaces/kube-system/secrets/bootstrap-token-ID
//	Drain       PATCH  /api/v1/nodes/NAME                              cordons, and notes why and since when
//	            POST   /api/v1/namespaces/NS/pods/POD/eviction         for each pod
//	            DELETE /api/v1/namespaces/NS/pods/POD                  when the time is over
//	Remove      DELETE /api/v1/nodes/NAME
//
// # What a node joins with
//
// A bootstrap token for kubeadm, made for one node. Its ID follows from the node's name, so that a node
// has one token at most, a new one replaces it, and nothing must be remembered to delete it. It is
// deleted when the cluster says that the node is a member, and the cluster itself deletes it after its
// end. The API server's answer must show the token as it was asked for.
//
// # What happens to pods
//
// Mirror pods and those of a DaemonSet stay: they belong to the node. Every other pod is evicted, which
// a PodDisruptionBudget may refuse, and Membership names it. A pod without a controller is evicted only
// when it has ended by itself or the time is over, since nothing would start it again. When the
// order's time is over, what is still there is deleted, and the answer names each pod that was cut off.
// When the time has begun stands in an annotation of the node, with the operation: so every broker
// counts alike, and a restart changes nothing.
//
// # Rules
//
//   - Absent is an answer that says NotFound of this very node. Every other 404 is no answer.
//   - A node is this one only by its label hostler.dev/node, with the node's id. Kubelet sets it as it makes the record.
//   - Each pod of a list must be on the node, or nothing is evicted: a server that ignores the selector
//     would have a whole cluster evicted.
//   - Each order carries the uid that was read before, so that it never reaches a successor of the same
//     name.
//   - A node of the control plane is neither drained nor removed.
//   - One order sends a bounded number of requests. The next one goes on.
package k8s
