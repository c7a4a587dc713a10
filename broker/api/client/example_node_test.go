package client_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
)

// May a node be handed to a tenant now, and if not, why? Ask as late as possible.
func ExampleClient_Node() {
	machine("gpu-01")
	ctx, c := context.Background(), connect()
	node, err := c.Node(ctx, "dc1/gpu-01") // or an id, or a hostname that only one site has
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(node.Hostname, node.Status, node.Handout.MayBeHandedOut)

	if _, err := c.Act(ctx, node.ID, "quarantine", api.NodeAction{Reason: "fan 3 is loud"}); err != nil {
		log.Fatal(err)
	}
	if node, err = c.Node(ctx, node.ID); err != nil {
		log.Fatal(err)
	}
	for _, reason := range node.Handout.Reasons {
		fmt.Println(node.Status, reason.Code)
	}
	// Output:
	// gpu-01 active true
	// quarantined node_status
}

// Nodes fetches every page of the list.
func ExampleClient_Nodes() {
	machine("gpu-02")
	ctx, c := context.Background(), connect()
	if _, err := c.SetLabels(ctx, "gpu-02", api.Labels{Labels: map[string]string{"rack": "r7"}}); err != nil {
		log.Fatal(err)
	}
	nodes, err := c.Nodes(ctx, client.NodeFilter{Site: "dc1", Status: "active", Labels: map[string]string{"rack": "r7"}})
	if err != nil {
		log.Fatal(err)
	}
	for _, n := range nodes.Items {
		fmt.Println(n.Site, n.Hostname)
	}
	// Output: dc1 gpu-02
}

// Many nodes are placed together: all, or none.
func ExampleClient_PlaceNodes() {
	machine("gpu-08")
	machine("gpu-09")
	ctx, c, rack, unit := context.Background(), connect(), "c07", 12
	r, err := c.PlaceNodes(ctx, api.NodePlaces{Items: []api.NodePlace{
		{Node: "gpu-08", PlaceChange: api.PlaceChange{Rack: &rack}}, {Node: "gpu-09", PlaceChange: api.PlaceChange{Rack: &rack}},
	}})
	if err != nil {
		log.Fatal(err)
	}
	n, err := c.PlaceNode(ctx, "gpu-09", api.NodePlaceChange{PlaceChange: api.PlaceChange{Unit: &unit}, Reason: "survey"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Changed, n.Rack, n.Unit)
	// Output: 2 c07 12
}

// A machine that no MAAS brought up enrols with the command that CreateNode answers.
func ExampleClient_CreateNode() {
	made, err := connect().CreateNode(context.Background(), api.NodeCreate{Hostname: "gpu-03", Site: "dc1", Bootstrap: "command", Reason: "new"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(made.Node.Hostname, made.Node.Status, made.Command != "")
	// Output: gpu-03 bootstrap_issued true
}

// The history of a node has its tasks, its runs and its changes of status.
func ExampleClient_Timeline() {
	machine("gpu-04")
	history, err := connect().Timeline(context.Background(), "gpu-04", time.Time{}, 50)
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range history.Items {
		if e.Kind == "task" {
			fmt.Println(e.What, e.Status)
		}
	}
	// Output: node.validate_clean succeeded
}

// The certificates that identify a node to the brokers. A stolen one is denied by its serial.
func ExampleClient_NodeCertificates() {
	machine("gpu-05")
	list, err := connect().NodeCertificates(context.Background(), "gpu-05")
	if err != nil {
		log.Fatal(err)
	}
	for _, cert := range list.Items {
		fmt.Println(list.Hostname, cert.State, "epoch", cert.Epoch)
	}
	// Output: gpu-05 valid epoch 1
}
