package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"time"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
)

// A task is enqueued and followed to its end. With an idempotency key, a program that crashed in
// between asks again and gets the same task.
func ExampleClient_Enqueue() {
	machine("gpu-10", "node.heartbeat_check")
	ctx, c := context.Background(), connect()
	task, err := c.Enqueue(ctx, "gpu-10", api.TaskCreate{Type: "node.heartbeat_check", IdempotencyKey: "check-1"})
	for err == nil && !task.Ended {
		task, err = c.Follow(ctx, task.ID, task.Progress, 30*time.Second)
	}
	if err != nil {
		log.Fatal(err)
	}
	var result struct {
		AgentVersion string `json:"agent_version"`
	}
	if err := json.Unmarshal(task.Result, &result); err != nil {
		log.Fatal(err)
	}
	fmt.Println(task.Type, task.Status, "by agent", result.AgentVersion)
	// Output: node.heartbeat_check succeeded by agent 1.4.0
}

// Newest first. A limit of 0 fetches every page.
func ExampleClient_Tasks() {
	machine("gpu-11")
	tasks, err := connect().Tasks(context.Background(), client.TaskFilter{Node: "gpu-11", Limit: 10})
	if err != nil {
		log.Fatal(err)
	}
	for _, t := range tasks.Items {
		fmt.Println(t.Type, t.Class, t.Status)
	}
	// Output: node.validate_clean probe succeeded
}

// The catalog has the JSON Schema of each type's params.
func ExampleClient_TaskType() {
	kind, err := connect().TaskType(context.Background(), "allocation.provision_user")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s@%d is %s\n", kind.Name, kind.Version, kind.Class)
	// Output: allocation.provision_user@1 is mutating
}
