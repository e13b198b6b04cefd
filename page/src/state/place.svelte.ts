/** The folder in view, or that of the file in view. */
export class CurrentPlace {
  folder = $state('/')
}
