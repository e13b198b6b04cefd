// Derived from the service by `make generate`.

/** Settings of features that this version does not have. */
export const ABSENT_SETTINGS = [
  'ftp_implicit_tls',
  'ftp_mandatory_tls',
  'ftp_pasv_port_map',
  'ftp_public_host',
  'ftp_tls_private_key_path',
  'ftp_tls_public_cert_path',
  's3_access_key_id',
  's3_buckets',
  's3_secret_access_key',
  'transmission_seedtime',
  'transmission_uri',
] as const

/** Settings that only other front ends read. */
export const FOREIGN_SETTINGS = [
  'allow_indexed',
  'allow_mounted',
  'audio_cover',
  'default_page_size',
  'external_previews',
  'filter_readme_scripts',
  'hide_files',
  'home_container',
  'home_icon',
  'iframe_previews',
  'ocr_api',
  'pagination_type',
  'preview_archives_by_default',
  'preview_download_by_default',
  'settings_layout',
  'share_icon',
  'share_preview_archives_by_default',
  'share_preview_download_by_default',
  'show_disk_usage_in_plain_text',
] as const
