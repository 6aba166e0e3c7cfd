package agent

import "context"

// Told returns when every event that there is was told, or ctx is done: for an Asker, whose
// question is to come behind what led to it.
func (a *Agent) Told(ctx context.Context) { _ = a.events.wait(ctx) }
