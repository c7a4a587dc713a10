package main

import (
	"github.com/hostler/hostler/test/demo/play"
	"github.com/hostler/hostler/test/qemu"
)

func main() {
	play.Main("demo-update",
		"The agents of a fleet are changed every week, and one bad release must not cost a way to the machine. A QEMU guest is the machine, the registry is real.",
		func(p *play.Play, image *qemu.Image) ([]play.Scene, []string) {
			d := &demo{Play: p, image: image}
			scenes := []play.Scene{
				{Title: "A broker, and a node with last week's agent", Play: d.node},
				{Title: "A release: packed, signed, pushed to a registry", Play: d.publish},
				{Title: "It is rolled out", Play: d.rollOut},
				{Title: "A release that does not come up", Play: d.broken},
				{Title: "What the node says, without a broker", Play: d.alone},
				{Title: "The truth about both", Play: d.truth},
			}
			return scenes, []string{
				"docs/how-to/rollouts.md", "canary, waves, and what pauses a rollout",
				"docs/how-to/self-update.md", "how a node updates itself, and what puts the old version back",
				"docs/how-to/releases.md", "what a release is, who signs it, and what is refused",
				"docs/how-to/agent-lifecycle.md", "what a node's agent is, and what is wanted of it",
			}
		})
}
