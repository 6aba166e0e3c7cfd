// Command belay gives a coding agent dependable hands. See the README.
package main

import (
	"os"

	"github.com/belayhq/belay/internal/cli"
	"github.com/belayhq/belay/internal/host/models"
)

func main() { os.Exit(cli.Main(models.New)) }
