package client_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/hostler/hostler/broker/api/client"
)

// One row an allocation that was active within the period, and the sums of each project.
func ExampleClient_Usage() {
	l, err := connect().Usage(context.Background(), client.UsageFilter{
		From: time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC), To: time.Date(2025, 2, 1, 0, 0, 0, 0, time.UTC),
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(l.To.Format(time.DateOnly), len(l.Totals), len(l.Items))
	// Output: 2025-02-01 0 0
}
